import { BadRequestException, Body, Controller, Get, Param, Post } from '@nestjs/common';

import { namePipe } from '../pipes/pattern.pipe.js';
import { WholeNumberPipe } from '../pipes/whole-number.pipe.js';
import { AccountsService } from './accounts.service.js';

@Controller('accounts')
export class AccountsController {
  constructor(private readonly accounts: AccountsService) {}

  @Get(':account')
  async balance(
    @Param('account', namePipe) account: string,
  ): Promise<{ account: string; balance: number }> {
    return { account, balance: await this.accounts.balanceOf(account) };
  }

  @Post('transfer')
  async transfer(
    @Body('from', namePipe) from: string,
    @Body('to', namePipe) to: string,
    @Body('amount', new WholeNumberPipe({ min: 1, max: 1_000_000 })) amount: number,
  ): Promise<Record<string, number>> {
    if (from === to) throw new BadRequestException('Expected from and to to be two accounts');
    return this.accounts.transfer({ from, to, amount });
  }
}
