"""Processes of two nodes, and where the state of the training goes."""

from svg import AMBER, BLUE, GREEN, GREY, INK, Picture

p = Picture(900, 500, "Processes of two nodes: ranks capture into arenas, ckptd copies and writes what is in them")


def node(x, name, other, mirrored):
    """The second node is drawn the other way round, so that the two daemons stand side by side."""
    def at(left, width=0):
        return x + (400 - left - width if mirrored else left)

    side = -1 if mirrored else 1
    far, near = ("start", "end") if mirrored else ("end", "start")
    p.box(x, 20, 400, 370, "#f7f9fb", dashed=True)
    p.text(x + 200, 38, name, 14, True)
    p.box(at(110, 150), 56, 150, 34, AMBER, "ckpt run (launcher)")
    p.box(at(20, 130), 140, 130, 66, BLUE, "rank\ntraining + libckpt\n(GPU or host state)", size=12)
    p.box(at(250, 130), 140, 130, 66, GREEN, "ckptd\none for each node", size=12)
    p.box(at(20, 290), 262, 290, 60, AMBER)
    p.text(at(165), 277, "arena of each rank: 3 to 8 slots", 12)
    for slot in range(3):
        p.box(at(32 + 90 * slot, 82), 291, 82, 24, words="slot", size=11)
    p.box(at(250, 130), 346, 130, 30, AMBER, f"copies for {other}", size=12)
    rank, daemon, launcher = at(85), at(330), at(185)
    p.arrow((launcher - 40 * side, 91), (rank + 20 * side, 139))
    p.arrow((launcher + 40 * side, 91), (daemon - 20 * side, 139))
    p.text(launcher - 110 * side, 114, "starts", 11, colour=GREY)
    p.text(launcher + 130 * side, 114, "starts", 11, colour=GREY)
    p.arrow((at(151), 173), (at(249), 173), both=True)
    p.text(at(200), 162, "control socket", 11, colour=GREY)
    p.arrow((rank, 207), (rank, 261), data=True)
    p.text(rank + 8 * side, 234, "capture", 12, anchor=near)
    p.arrow((at(270), 261), (at(270), 207), both=True)
    p.text(at(278), 234, "digests, levels", 12, anchor=near)
    p.arrow((rank, 323), (rank, 405), (x + (130 if mirrored else 270), 405), (x + (130 if mirrored else 270), 433), data=True)
    p.text(rank + 8 * side, 366, "written from the slots", 12, anchor=near)


node(20, "node A (first line of the roster)", "B", False)
node(480, "node B", "A", True)
p.arrow((401, 160), (499, 160), both=True)
p.text(450, 140, "orders, reports", 11, colour=GREY)
p.arrow((311, 295), (498, 352), data=True)
p.arrow((589, 295), (402, 352), data=True)
p.text(450, 300, "copies", 12)
p.box(220, 434, 460, 52, GREEN, "store: one directory that all nodes see\na checkpoint is there, and complete, once its directory is renamed", size=12)
p.line([(24, 446), (64, 446)], 2.4, INK, end=True)
p.text(72, 446, "state of the training", 12, anchor="start")
p.line([(24, 472), (64, 472)], 1.2, INK, True, end=True)
p.text(72, 472, "messages, digests", 12, anchor="start")
p.show()
