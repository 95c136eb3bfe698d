import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { GraphQLModule, Mutation, Query, Resolver } from '@nestjs/graphql';
import { expect } from '@jest/globals';

import { listen, providersOf, type Context, type Replica, type Running } from './context.js';

/** Queries of Apollo. */
export const query = graphql('query', Query);

/** Mutations of Apollo. */
export const mutation = graphql('mutation', Mutation);

function graphql(kind: 'query' | 'mutation', decorate: typeof Query): Context {
  return {
    name: `a GraphQL ${kind}`,
    methodName: 'handle',
    classDecorators: () => [Resolver()],
    methodDecorators: (operation) => [decorate(() => String, { name: operation })],
    start: (replica) => start(kind, replica),
    told: {
      forbidden: { message: 'Forbidden resource', extensions: { code: 'FORBIDDEN' } },
      taken: { extensions: { code: 'LOCK_TAKEN', retryAfter: expect.any(Number) } },
      lost: { extensions: { code: 'LOCK_LOST' } },
    },
  };
}

// A schema without any query is none.
@Resolver()
class Pings {
  @Query(() => String)
  ping(): string {
    return 'pong';
  }
}

async function start(kind: string, replica: Replica): Promise<Running> {
  const driver = ApolloDriver;
  const imports = [
    GraphQLModule.forRoot<ApolloDriverConfig>({ driver, autoSchemaFile: true, graphiql: false }),
  ];
  const module = await replica
    .build({ imports, providers: [...providersOf(replica), Pings] })
    .compile();
  const application = module.createNestApplication({ forceCloseConnections: true });
  return listen(application, (url) => async (operation, role) => {
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { role, 'content-type': 'application/json' },
      body: JSON.stringify({ query: `${kind} { ${operation} }` }),
    });
    const { data, errors } = (await response.json()) as { data: unknown; errors?: unknown[] };
    if (errors === undefined) return data;
    throw errors[0];
  });
}
