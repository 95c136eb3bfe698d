// Options that an application makes by a provider of its own.
import { Injectable } from '@nestjs/common';
import { Locked, type RedlockFactoryOptions, type RedlockOptionsFactory } from 'nestjs-locked';

import { threeNodes } from './applications.js';

export class Settings {
  readonly nodes = threeNodes();
}

@Injectable()
export class OptionsOfSettings implements RedlockOptionsFactory {
  readonly settings: Settings;
  constructor(settings: Settings) {
    this.settings = settings;
  }

  async createRedlockOptions(): Promise<RedlockFactoryOptions> {
    return { nodes: this.settings.nodes, ttl: 1_000 };
  }
}

@Injectable()
export class LockedSettings extends Settings implements RedlockOptionsFactory {
  @Locked('settings')
  async refresh(): Promise<void> {}

  createRedlockOptions(): RedlockFactoryOptions {
    return { nodes: this.nodes };
  }
}
