"""How much memory a process has needed at most since it was last looked at."""

from pathlib import Path

from table import Failure


class Peak:
    """Forgets the peak of a process when made; what comes later is compared with what it holds now."""

    def __init__(self, pid):
        self._directory = Path(f"/proc/{pid}")
        # 5 sets the peak to what is resident now.
        (self._directory / "clear_refs").write_text("5")
        self._before = self._bytes("VmRSS")

    def bytes(self):
        """The peak, and by how much it is above what was resident."""
        peak = self._bytes("VmHWM")
        return peak, max(0, peak - self._before)

    def _bytes(self, name):
        for line in (self._directory / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise Failure(f"/proc does not tell {name}")
