import { Controller, HttpCode, Post } from '@nestjs/common';

import { ReportService, type Report } from './report.service.js';

@Controller('report')
export class ReportController {
  constructor(private readonly reports: ReportService) {}

  /** Runs the job now, unless some replica has just done so. */
  @Post()
  @HttpCode(200)
  async run(): Promise<Report | { skipped: true }> {
    return (await this.reports.run()) ?? { skipped: true };
  }
}
