// Endpoints that try once to lock an account: by themselves, or by a service deep in the call.
import { Controller, Get, Injectable } from '@nestjs/common';
import { MessagePattern } from '@nestjs/microservices';
import { Locked } from 'nestjs-locked';

@Injectable()
export class Deep {
  @Locked('account:42', { wait: 0 })
  async run(): Promise<string> {
    return 'done';
  }
}

@Controller()
export class AccountEndpoints {
  readonly deep: Deep;
  constructor(deep: Deep) {
    this.deep = deep;
  }

  @Get('locked')
  @MessagePattern('locked')
  @Locked('account:42', { wait: 0 })
  async locked(): Promise<string> {
    return 'done';
  }

  @Get('deep')
  @MessagePattern('deep')
  async deeper(): Promise<string> {
    return this.deep.run();
  }
}
