import { getEventListeners } from 'node:events';

import { expect, it, jest } from '@jest/globals';

import { ignoreAbort, interruptOnAbort, whenAborted } from '../../lib/core/abort-listener.js';

function listenTo({ signal }: AbortController): () => () => void {
  const add = jest.spyOn(signal, 'addEventListener');
  return () => add.mock.calls[0]?.[1] as () => void;
}

it('tells all who end with a signal, also where one of them throws, and throws that', () => {
  const controller = new AbortController();
  const listener = listenTo(controller);
  const failure = new Error('a teardown');
  const fail = jest.fn(() => {
    throw failure;
  });
  const others = [jest.fn(), jest.fn()];
  const [first, last] = others.map((interrupt) => ({ interrupt }));
  for (const target of [first, { interrupt: fail }, last]) {
    if (target !== undefined) interruptOnAbort(controller.signal, target);
  }

  expect(listener()).toThrow(failure);

  for (const told of [fail, ...others]) expect(told).toHaveBeenCalledTimes(1);
});

it('tells them also where another listener of the signal stops the event', () => {
  const controller = new AbortController();
  controller.signal.addEventListener('abort', (event) => event.stopImmediatePropagation());
  const target = { interrupt: jest.fn() };
  interruptOnAbort(controller.signal, target);

  controller.abort('enough');

  expect(target.interrupt.mock.calls).toEqual([['enough']]);
});

it('tells nobody who has left', () => {
  const controller = new AbortController();
  const [staying, leaving] = [{ interrupt: jest.fn() }, { interrupt: jest.fn() }];
  for (const target of [staying, leaving]) interruptOnAbort(controller.signal, target);

  ignoreAbort(controller.signal, leaving);
  controller.abort('enough');

  expect(staying.interrupt.mock.calls).toEqual([['enough']]);
  expect(leaving.interrupt).not.toHaveBeenCalled();
});

it('tells at once of a signal that has aborted, whoever asks and whoever asked before', () => {
  const controller = new AbortController();
  const told = [jest.fn(), jest.fn(), jest.fn()];
  const [before, ...after] = told;
  if (before !== undefined) whenAborted(controller.signal, before);
  controller.abort('enough');

  for (const interrupt of after) whenAborted(controller.signal, interrupt);

  expect(told.map(({ mock }) => mock.calls)).toEqual([[['enough']], [['enough']], [['enough']]]);
});

it('leaves the signal also where Symbol.dispose is missing, as on Node 20 under jest 29', () => {
  const { signal } = new AbortController();
  const { dispose } = Symbol;
  // Stays where the engine has it: there no context is without.
  Reflect.deleteProperty(Symbol, 'dispose');
  try {
    const target = { interrupt: jest.fn() };
    interruptOnAbort(signal, target);

    ignoreAbort(signal, target);
  } finally {
    Reflect.set(Symbol, 'dispose', dispose);
  }

  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
