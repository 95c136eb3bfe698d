// Runs before the tests: a machine that has Node and git and nothing else gets here what they start.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Of each, one of the commands has to be on PATH; the packages are Debian's. */
const PROGRAMS = [
  {
    what: 'a Redis server',
    commands: ['redis-server', 'valkey-server'],
    // Both where the system has both: what other servers must do alike is shown on each.
    packages: ['redis-server', 'valkey-server'],
  },
  {
    what: 'a browser',
    commands: ['chromium', 'chromium-browser', 'google-chrome'],
    packages: ['chromium'],
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

function installByApt(programs) {
  const wanted = programs.flatMap(({ packages }) => packages);
  console.error(`Not on PATH: installing ${wanted.join(', ')} by apt-get, where it has them.`);
  if (!run('apt-get', ['update'])) return false;
  const known = wanted.filter((name) => run('apt-cache', ['show', name]));
  return withoutStartingServices(() =>
    run('apt-get', ['install', '-y', '--no-install-recommends', ...known]),
  );
}

const POLICY = '/usr/sbin/policy-rc.d';

const missing = findMissing();
if (missing.length > 0) {
  const canInstall = process.getuid?.() === 0 && isOnPath('apt-get');
  if (!canInstall) fail('Something is missing that cannot be installed from here.', missing);
  const isInstalled = installByApt(missing);
  const stillMissing = findMissing();
  if (!isInstalled || stillMissing.length > 0) fail('apt-get could not install it.', stillMissing);
}
