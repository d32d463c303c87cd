// @ts-check
import { findProgram } from './find-program.mjs';

/**
 * Installs packages and nothing else: no services are started, no recommendations followed.
 *
 * Debian starts a service as soon as it is installed unless /usr/sbin/policy-rc.d forbids it. Ours
 * is there only while apt works: the shell that runs apt removes it even if we are gone by then,
 * and should that shell be killed, the file takes itself away when it is next asked. A policy that
 * is there already is the machine's own and stays.
 */
const INSTALL = `
trap '' INT TERM HUP
policy=$1
shift
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\\nkill -0 %d 2>/dev/null && exit 101\\nrm -f "$0"\\n' "$$" > "$policy"
  chmod 755 "$policy"
fi
install() {
  apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}
# Fresh containers have no package lists, and those of old machines name files that are gone.
ls /var/lib/apt/lists/*_Packages* > /dev/null 2>&1 || apt-get update -q
install "$@" || { apt-get update -q && install "$@"; }
`;

/** Whether this machine and this user can install Debian's packages. */
export function canInstall() {
  return process.getuid?.() === 0 && findProgram('apt-get', ['/usr/bin']) !== null;
}

/**
 * Returns whether all of them are installed now. Not to be interrupted: half an installation would
 * leave a mess that is not ours to clean up.
 * @param {import('./test-run.mjs').TestRun} run
 * @param {readonly string[]} packages
 * @param {string} [policy]
 */
export async function installPackages(run, packages, policy = '/usr/sbin/policy-rc.d') {
  console.log(`Installing ${packages.join(', ')} ...`);
  const code = await run.run('sh', ['-c', INSTALL, 'install', policy, ...packages], {
    stdio: ['ignore', 'ignore', 'inherit'],
    stopSignal: 'wait',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  return code === 0;
}
