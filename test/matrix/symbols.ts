// What docs/TESTING.md has contexts do that lack the symbol, before they load the library.
Reflect.defineProperty(Symbol, 'asyncDispose', { value: Symbol('Symbol.asyncDispose') });
