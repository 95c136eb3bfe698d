// A service deep in a call, which tries once to lock the account.
import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';

@Injectable()
export class Deep {
  @Locked('account:42', { wait: 0 })
  async run(): Promise<string> {
    return 'done';
  }
}
