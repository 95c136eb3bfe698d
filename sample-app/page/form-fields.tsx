import type { ComponentChildren } from 'preact';

interface NumberFieldProps {
  readonly name: string;
  readonly label: string;
  readonly min: number;
  readonly max: number | undefined;
  readonly value: number;
  readonly isDisabled?: boolean;
  readonly onChange: (value: number) => void;
}

/** A field for a whole number that must be given. */
export function NumberField({
  name,
  label,
  min,
  max,
  value,
  isDisabled = false,
  onChange,
}: NumberFieldProps) {
  return (
    <label>
      <span>{label}</span>
      <input
        type="number"
        name={name}
        required
        min={min}
        max={max}
        // An emptied field has no number.
        value={Number.isNaN(value) ? '' : value}
        disabled={isDisabled}
        onInput={(event) => onChange(event.currentTarget.valueAsNumber)}
      />
    </label>
  );
}

interface SwitchProps {
  readonly name: string;
  readonly isOn: boolean;
  readonly isDisabled?: boolean;
  readonly onChange: (isOn: boolean) => void;
  /** What it switches. */
  readonly children: ComponentChildren;
}

/** A switch for something that is on or off. */
export function Switch({ name, isOn, isDisabled = false, onChange, children }: SwitchProps) {
  return (
    <label class="switch">
      <input
        type="checkbox"
        role="switch"
        name={name}
        checked={isOn}
        disabled={isDisabled}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{children}</span>
    </label>
  );
}
