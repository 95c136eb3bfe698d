import { Body, Controller, Get, Param, Post, Put } from '@nestjs/common';

import { namePipe } from '../pipes/pattern.pipe.js';
import { WholeNumberPipe } from '../pipes/whole-number.pipe.js';
import { InventoryService, type Reservation } from './inventory.service.js';

interface Stock {
  readonly sku: string;
  readonly stock: number;
}

@Controller('inventory/:sku')
export class InventoryController {
  constructor(private readonly inventory: InventoryService) {}

  @Get()
  async stock(@Param('sku', namePipe) sku: string): Promise<Stock> {
    return { sku, stock: await this.inventory.stockOf(sku) };
  }

  @Put()
  async setStock(
    @Param('sku', namePipe) sku: string,
    @Body('stock', new WholeNumberPipe({ min: 0, max: 1_000_000 })) stock: number,
  ): Promise<Stock> {
    await this.inventory.setStock(sku, stock);
    return { sku, stock };
  }

  // The library answers 423 when others hold the lock and 503 when too few nodes vote, both with
  // `Retry-After`.
  @Post('reserve')
  async reserve(
    @Param('sku', namePipe) sku: string,
    @Body('quantity', new WholeNumberPipe({ min: 1, max: 1_000 })) quantity: number,
  ): Promise<Reservation> {
    return this.inventory.reserve(sku, quantity);
  }
}
