// Runs before the tests: a machine that has Node and git and nothing else gets its redis-server here.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const SERVERS = ['redis-server', 'valkey-server'];

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

function fail(why) {
  console.error(
    `${why} Install redis-server or valkey-server (version 6 or later), so that it is on PATH.`,
  );
  process.exit(1);
}

function run(command, args) {
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  // Its output goes to stderr: stdout belongs to the tests.
  return spawnSync(command, args, { stdio: ['ignore', 2, 2], env: environment }).status === 0;
}

// The package would start a server of its own on port 6379. While this file says 101 ("forbidden"),
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

// Both where the system has both: what other servers must do alike is shown on each.
function installByApt() {
  console.error('No redis-server or valkey-server on PATH: installing them by apt-get.');
  if (!run('apt-get', ['update'])) return false;
  const packages = SERVERS.filter((name) => run('apt-cache', ['show', name]));
  return withoutStartingServices(() =>
    run('apt-get', ['install', '-y', '--no-install-recommends', ...packages]),
  );
}

const POLICY = '/usr/sbin/policy-rc.d';

if (!SERVERS.some(isOnPath)) {
  const canInstall = process.getuid?.() === 0 && isOnPath('apt-get');
  if (!canInstall) fail('The tests start Redis servers of their own and found none.');
  if (!installByApt() || !SERVERS.some(isOnPath)) fail('apt-get could not install a server.');
}
