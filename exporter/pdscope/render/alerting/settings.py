"""What may differ from one installation of the rules to the next."""

from __future__ import annotations

from dataclasses import dataclass

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one rendering of the rules.

    Attributes:
        time_scale: factor on every window and waiting time; below 1 for tests that cannot wait.
        stale_after_seconds: age of a diagnosis from which it says nothing of now. Not scaled: it is pdscope's cycle
            that sets it.
        keep_labels: labels of targets that tell deployments of one name apart. All others are aggregated away.
        runbook_url: folder of the runbooks.
        diagnose_url: address of pdscope, where the external label `pdscope_url` does not say it.
    """

    time_scale: float = 1.0
    stale_after_seconds: float = 120.0
    keep_labels: tuple[str, ...] = ("cluster", "namespace")
    runbook_url: str = "https://pdscope.example/docs/runbooks"
    diagnose_url: str = "http://pdscope.example:9836"

    @property
    def identity(self) -> tuple[str, ...]:
        """The labels of one deployment."""
        return (*self.keep_labels, "deployment")

    def span(self, seconds: float) -> str:
        """A scaled duration as Prometheus writes it, never 0."""
        return duration(max(seconds * self.time_scale, 0.001))

    def by(self, *labels: str) -> str:
        """`by (…)`, which keeps the identity of a deployment and the given labels and nothing else of the target.

        `by` and not `without`: whatever labels a replica of pdscope bears (instance, pod, container, endpoint, node,
        or one that a discovery adds), two replicas make one series.
        """
        return f"by ({', '.join((*self.identity, *labels))})"

    def on(self) -> str:
        """`on (…)` for two series of one deployment."""
        return f"on ({', '.join(self.identity)})"


def duration(seconds: float) -> str:
    """As Prometheus writes it: `1h30m`, `500ms`.

    Raises:
        ValueError: not above 0.
    """
    rest = round(seconds * 1000)
    if rest <= 0:
        raise ValueError(f"a duration of rules must be above 0, not {seconds:g} s")
    text = ""
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text
