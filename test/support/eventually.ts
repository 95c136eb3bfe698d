/** Waits until `isTrue`, at most `limit` ms. For what happens in a server and tells nobody. */
export async function eventually(
  isTrue: () => boolean | Promise<boolean>,
  limit = 10_000,
): Promise<void> {
  const endsAt = Date.now() + limit;
  while (!(await isTrue())) {
    if (Date.now() > endsAt) throw new Error(`Not within ${limit} ms: ${isTrue.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
