import { Controller, Get, Header, Headers } from '@nestjs/common';

/** Tells curl and the like what can be done with the app. Browsers get the page. */
@Controller()
export class HomeController {
  @Get()
  @Header('content-type', 'text/plain; charset=utf-8')
  home(@Headers('host') host: string): string {
    const json = `-H 'content-type: application/json'`;
    return [
      'The sample app of nestjs-locked. Try:',
      '',
      `curl ${host}/inventory/apple`,
      `curl -X POST ${host}/inventory/apple/reserve ${json} -d '{"quantity": 2}'`,
      `curl -X POST ${host}/accounts/transfer ${json} -d '{"from": "alice", "to": "bob", "amount": 30}'`,
      `curl -X POST ${host}/report`,
      `curl -i -X POST '${host}/slow/import?seconds=5'   # twice at once: the second gets 423`,
      `curl '${host}/locks/status?resource=slow:import'`,
      '',
    ].join('\n');
  }
}
