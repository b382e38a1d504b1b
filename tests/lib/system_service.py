"""One `ckptd --system` and the users whom it serves, for tests that root runs. Starts the script again where the users have accounts."""

import contextlib
import json
import shutil
import sys
import tempfile

import users

users.accounts()

import single_node
from single_node import DEADLINE, Cases, Failure, expect, until
from service_manager import Managed
from users import NAMES, Person
from scripted_ranks import Puppet, all_must, gather
from tap import equal

top = users.settle()


class System(single_node.Daemon):
    """The service. Stores are below its own folder, one for each user."""

    def __init__(self, *options):
        super().__init__(top=tempfile.mkdtemp(dir=top), store=False, options=options)
        self.top.chmod(0o711)
        self.stores = self.top / "stores"
        self.stores.mkdir(mode=0o711)
        self.config = self.top / "ckpt.conf"
        self.config.write_text("")

    def launch(self, command, **how):
        how["env"].update(LD_LIBRARY_PATH=str(top / "lib"))
        return self.spawn(self.line(command), **how)

    def line(self, command):
        return [top / "bin" / "ckptd", *command[1:], "--system", "--store", f"{self.stores}/%u", "--config", self.config]

    def overview(self):
        code, out, err = self.ckpt("status", "--json", "--socket", self.socket)
        equal(code, 0, err)
        return json.loads(out)

    def user(self, uid):
        """What root is told of him; {} when he is not known."""
        return next((u for u in self.overview()["users"] if u["uid"] == uid), {})

    def worker(self, uid):
        return self.user(uid).get("pid", 0)

    def served(self, uid):
        return until(lambda: self.user(uid).get("state") == "served" and self.worker(uid), f"user {uid} is served")


class ManagedSystem(Managed, System):
    def launch(self, command, **how):
        how["env"].update(LD_LIBRARY_PATH=str(top / "lib"))
        return Managed.launch(self, self.line(command), **how)


class Guest(Person):
    """One who uses the service."""

    def __init__(self, uid, system):
        super().__init__(uid)
        self.socket, self.store = system.socket, system.stores / NAMES[uid]

    def status(self):
        code, out = self.run("ckpt", "status", "--json", "--socket", self.socket)
        expect(code == 0, "status of", self.uid, out)
        return json.loads(out)


@contextlib.contextmanager
def service(*options, config="", kind=System):
    system = kind(*options)
    if config:
        system.config.write_text(config)
    guests = [Guest(uid, system) for uid in NAMES]
    try:
        yield system.start(), *guests
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}\n---- service\n{system.text()[-6000:]}") from error
    finally:
        for guest in guests:
            guest.close()
        if system.alive():
            system.process.terminate()
            with contextlib.suppress(Exception):
                system.process.wait(DEADLINE)
        system.close()


def saves(guest, steps=40, world=2, pause=5):
    ranks = guest.world(world, "--steps", steps, "--storage", 10, "--pause", pause)
    for rank in ranks:
        equal(rank.wait(), 0, f"a rank of user {guest.uid}: {(guest.top / 'rank0.err').read_text()}")
    return ranks


def owners(folder):
    """What is just being written comes and goes."""
    found = set()
    for path in [folder, *folder.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):
            found.add(path.lstat().st_uid)
    return found


def puppets(guest, elements=1000):
    ranks = [Puppet(guest, number, 2) for number in range(2)]
    gather(ranks, elements)
    return ranks


def again(ranks, elements=1000):
    """The second is new, the first must join with it."""
    ranks[1].must("open")
    ranks[1].must("table", elements, 0)
    all_must(ranks, "join")


def run(tests):
    """The cases, (name, function, arguments…) each, or those whose functions the command line names; ends the script."""
    cases = Cases()
    try:
        for name, test, *args in tests:
            if not sys.argv[1:] or {test.__name__, *(getattr(a, "__name__", "") for a in args)} & set(sys.argv[1:]):
                cases.run(name, test, *args)
        code = cases.end()
    finally:
        shutil.rmtree(top)
    sys.exit(code)
