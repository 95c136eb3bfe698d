// Runs before the tests: a machine that has Node and git and nothing else gets here what they start.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Of each, one of the commands has to be on PATH; the package is Debian's. */
const PROGRAMS = [
  { what: 'a Redis server', commands: ['redis-server', 'valkey-server'], debian: 'redis-server' },
  {
    what: 'a browser',
    commands: ['chromium', 'chromium-browser', 'google-chrome'],
    debian: 'chromium',
  },
];

function isOnPath(command) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}

function findMissing() {
  return PROGRAMS.filter(({ commands }) => !commands.some(isOnPath));
}

function fail(why, missing) {
  console.error(why);
  for (const { what, commands } of missing) {
    console.error(`The tests start ${what}: install one of ${commands.join(', ')} on PATH.`);
  }
  process.exit(1);
}

function run(command, args) {
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  // Its output goes to stderr: stdout belongs to the tests.
  return spawnSync(command, args, { stdio: ['ignore', 2, 2], env: environment }).status === 0;
}

// A server's package would start it on its usual port. While this file says 101 ("forbidden"),
// Debian's service scripts do not.
function withoutStartingServices(install) {
  const isOurs = !existsSync(POLICY);
  if (isOurs) writeFileSync(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    return install();
  } finally {
    if (isOurs) rmSync(POLICY);
  }
}

function installByApt(packages) {
  console.error(`Not on PATH: installing ${packages.join(', ')} by apt-get.`);
  return (
    run('apt-get', ['update']) &&
    withoutStartingServices(() =>
      run('apt-get', ['install', '-y', '--no-install-recommends', ...packages]),
    )
  );
}

const POLICY = '/usr/sbin/policy-rc.d';

const missing = findMissing();
if (missing.length > 0) {
  const canInstall = process.getuid?.() === 0 && isOnPath('apt-get');
  if (!canInstall) fail('Something is missing that cannot be installed from here.', missing);
  const isInstalled = installByApt(missing.map(({ debian }) => debian));
  const stillMissing = findMissing();
  if (!isInstalled || stillMissing.length > 0) fail('apt-get could not install it.', stillMissing);
}
