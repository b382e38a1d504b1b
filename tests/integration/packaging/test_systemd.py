"""The packages on a machine of Debian with systemd, as docs/howto/run-ckptd-under-systemd.md says: a daemon of the user's own and one that the system starts, whose
jobs go on from memory after a restart and after a crash of the daemon. Nightly: the machine's root file system is made for it."""
# timeout: 1800

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import booted
from launcher import TRAIN, Run, final
from pages import at, commands
from tap import BIN, NIGHTLY, Cases, equal, has, until

PAGE, USER, FOREVER = "run-ckptd-under-systemd.md", "ann", 1000000
why = None if NIGHTLY else "nightly: it makes the root file system of a machine"
why = why or booted.lacks() or (None if shutil.which("cpack") and shutil.which("dpkg-shlibdeps") else "no dpkg-dev or cpack here")
if why:
    print(why)
    sys.exit(77)
cases = Cases()
case = cases.case
top = pathlib.Path(tempfile.mkdtemp())
subprocess.run(["cpack", "-G", "DEB", "--config", BIN.parent / "CPackConfig.cmake", "-B", top, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"], check=True,
               stdout=subprocess.DEVNULL, timeout=300)
machine = booted.Machine(sorted(top.glob("*.deb")), [TRAIN], USER)


def page(words, prompt="$"):
    (found,) = [command for command in commands(PAGE, prompt) if words in command]
    return found


def job(log, variables, words):
    """The page's job, until it is asked to end."""
    line = at(page(words), {"--steps 400": f"--steps {FOREVER}"})
    return machine.spawn(f"{variables} exec {line}", USER, stdout=open(log, "wb"))


def survives(unit, log, variables, words, store, systemctl):
    """A job, its daemon's restart and crash, the loss of a rank after them; then its end."""
    process = job(log, variables, words)

    def durable():
        return [path for path in (machine.root / store).glob("step-*/MANIFEST.json")]

    def back(times):
        until(lambda: log.read_text().count("the daemon is back: saves go on") == times, lambda: f"the daemon is back: {log.read_text()[-2000:]}")
    until(durable, "something is durable")
    machine(f"{systemctl} restart {unit}", USER if "--user" in systemctl else None)
    back(1)
    machine(f"{systemctl} kill --signal=KILL --kill-whom=main {unit}", USER if "--user" in systemctl else None)
    back(2)
    machine("pkill -KILL --newest --exact ckpt-train", USER)
    until(lambda: "2 ranks go on from memory" in log.read_text(), lambda: f"the ranks go on from memory: {log.read_text()[-2000:]}")
    machine("pkill -TERM --oldest --exact ckpt", USER)
    equal(process.wait(180), 0, log.read_text()[-2000:])
    step = int(re.search(r"final step=(\d+)", log.read_text()).group(1))
    equal(final(log.read_text()), final(Run("-n", 2, "--", TRAIN, "--steps", step).wait().out()))


@case("the user's own daemon: a job goes on from memory after a restart and after a crash of it")
def _():
    store = f"/home/{USER}/checkpoints"
    machine(f"mkdir -p ~/.config/ckpt; printf '[node]\\nstore = {store}\\n' >~/.config/ckpt/ckpt.conf", USER)
    # One who only logs in for each command has a manager of his own with the second line.
    machine(f"{page('systemctl --user')}; {page('loginctl')}", USER)
    survives("ckptd.service", top / "own.log", "", "--daemon external", f"home/{USER}/checkpoints/gpt", "systemctl --user")
    has(machine(f"ckpt list --repo {store}", USER), "gpt")


@case("a daemon of one user that the system starts: the same, and it reloads its settings")
def _():
    machine(page("enable --now ckptd@", "#"))
    survives(f"ckptd@{USER}.service", top / "system.log", f"{page('export')};", "run -n 2 --job gpt", f"var/lib/ckptd/{USER}/gpt", "systemctl")
    machine(f"systemctl reload ckptd@{USER}.service")
    until(lambda: "SIGHUP" in machine(f"journalctl --no-pager -u ckptd@{USER}.service"), "the configuration is read again")


@case("limits are set as the page says")
def _():
    for command in commands(PAGE, "#"):
        if "set-property" in command:
            machine(command)
    has(machine(f"systemctl show -p MemoryMax ckptd@{USER}.service"), f"MemoryMax={64 << 30}")


@case("nothing failed in the machine, and nobody else can connect")
def _():
    equal(machine("systemctl --failed --no-legend --plain").strip(), "")
    equal(machine(f"stat -c '%U %a' /run/ckptd/{USER}/ckptd.sock").split(), [USER, "600"])
    has(machine("useradd bob; su bob -c 'ckpt status --socket /run/ckptd/ann/ckptd.sock'", code=12), "Permission denied")


if cases.failed:
    print("".join(f"# {line}\n" for line in machine.log.read_text(errors="replace")[-3000:].splitlines()))
status = cases.end()
machine.close()
shutil.rmtree(top)
sys.exit(status)
