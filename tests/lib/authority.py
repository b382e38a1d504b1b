"""Certificates of nodes, and who signs them."""

import subprocess

from tap import DEADLINE, equal


class Authority:
    """Signs certificates of nodes."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder, self.ca, self.serial = folder, folder / "ca.pem", 0
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
                     "-subj", "/CN=cluster", "-days", "2")

    def openssl(self, *words):
        done = subprocess.run(["openssl", *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE, check=False)
        equal(done.returncode, 0, done.stderr)

    def certify(self, name, days=2):
        """CERT,KEY,CA of a node."""
        self.serial += 1
        cert, key = self.folder / f"{name}-{self.serial}.pem", self.folder / f"{name}-{self.serial}.key"
        (self.folder / "names").write_text(f"subjectAltName=DNS:{name}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", "request", "-subj", "/CN=node")
        self.openssl("x509", "-req", "-in", "request", "-CA", self.ca, "-CAkey", "ca.key", "-set_serial", self.serial, "-days", days,
                     "-extfile", "names", "-out", cert)
        key.chmod(0o600)
        return f"{cert},{key},{self.ca}"
