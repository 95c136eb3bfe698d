import type { AddressInfo } from 'node:net';

import type { INestMicroservice } from '@nestjs/common';
import {
  ClientProxyFactory,
  Transport,
  type ClientProxy,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';

/** A microservice over TCP, and a client of it. */
export interface TcpService {
  readonly service: INestMicroservice;
  readonly client: ClientProxy;
  close(): Promise<void>;
}

/** Starts a module as a microservice on a port that the system chooses. */
export async function startTcpService(module: TestingModule): Promise<TcpService> {
  const host = '127.0.0.1';
  const transport = Transport.TCP;
  const options = { port: 0, host };
  const service = module.createNestMicroservice<MicroserviceOptions>({ transport, options });
  await service.listen();
  const { port } = service.unwrap<{ address(): AddressInfo }>().address();
  const client = ClientProxyFactory.create({ transport, options: { port, host } });
  const close = async (): Promise<void> => {
    await client.close();
    await service.close();
  };
  return { service, client, close };
}
