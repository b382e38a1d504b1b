"""One save over two nodes, from begin to verified."""

from svg import AMBER, BLUE, GREEN, GREY, INK, Picture

p = Picture(960, 500, "The life of one save over two nodes: who does what before each level is shown")
LANES = [("ranks of A", BLUE), ("ckptd of A", GREEN), ("coordinator", AMBER), ("ckptd of B", GREEN), ("ranks of B", BLUE), ("store", GREEN)]


def y(lane):
    return 92 + 66 * lane


def act(lane, x, width, words):
    p.box(x, y(lane) - 19, width, 38, LANES[lane][1], words, size=11)


def level(x, until, name):
    """What ckpt_poll answers from x on."""
    if name != "pending":
        p.line([(x, 46), (x, y(5) + 26)], 1, GREY, True)
    p.box(x, 20, until - x, 26, "#eef2f6", name, bold=True)


for lane, (name, colour) in enumerate(LANES):
    p.line([(100, y(lane)), (955, y(lane))], 1, "#cbd2d9")
    p.text(92, y(lane), name, 12, True, anchor="end")
p.text(92, 33, "level", 12, True, anchor="end")
for span in ((110, 310, "pending"), (310, 486, "captured"), (486, 754, "replicated"), (754, 886, "durable"), (886, 955, "verified")):
    level(*span)

act(0, 110, 62, "begin,\ncapture")
act(0, 178, 44, "fence")
act(4, 110, 72, "begin,\ncapture")
act(4, 188, 44, "fence")
act(1, 186, 74, "digest the\nslots")
act(3, 196, 74, "digest the\nslots")
p.arrow((261, y(1)), (282, y(2) - 20))
p.arrow((271, y(3)), (292, y(2) + 20))
act(2, 268, 40, "all?")

p.arrow((308, y(2) - 12), (332, y(1) + 20))
p.arrow((308, y(2) + 12), (332, y(3) - 20))
act(1, 322, 104, "send copies,\ndigest held ones")
act(3, 322, 104, "send copies,\ndigest held ones")
p.arrow((427, y(1)), (456, y(2) - 20))
p.arrow((427, y(3)), (456, y(2) + 20))
act(2, 442, 42, "all?")

p.arrow((484, y(2)), (508, y(2)), (508, y(5) - 20))
act(5, 492, 64, "directory\nis made")
p.arrow((540, y(5) - 20), (540, y(2)), (576, y(1) + 12))
p.arrow((540, y(2)), (598, y(3) - 10))
p.arrow((590, y(1) + 20), (590, y(5) - 20), data=True)
act(1, 578, 80, "write the\npart of A")
act(3, 600, 80, "write the\npart of B")
p.arrow((625, y(3) + 20), (625, y(5) - 20), data=True)
act(5, 572, 72, "data files,\nsidecars")
p.arrow((648, y(1) + 20), (648, y(2) - 10), (686, y(2) - 10))
p.arrow((648, y(3) - 20), (648, y(2) + 10), (686, y(2) + 10))
p.text(643, y(2) - 20, "prepared", 10, colour=GREY, anchor="end")
act(2, 688, 42, "all?")
p.arrow((709, y(2) + 20), (709, y(5) - 20))
act(5, 656, 96, "directory\nrenamed, fsynced")

p.arrow((820, y(5)), (820, y(1) + 20), data=True)
p.line([(753, y(5)), (820, y(5))], 2.4, INK)
act(1, 770, 100, "read all back\n(node of rank 0)")
p.text(110, y(5) + 46, "Copying and writing can overlap. A level is shown when it is true for every rank.", 12, colour=GREY, anchor="start")
p.show()
