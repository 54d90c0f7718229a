"""Numbers for operators, in Prometheus' text format. Names begin with `bitong_`; no tool's text is ever a label."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from service.domain.runs import OPEN, Run


class Metrics:
    """One registry a service, so that tests and several services in one process stay apart."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.hooks = Counter("bitong_hooks", "Webhook requests by answer", ["status"], registry=self._registry)
        self.runs = Counter("bitong_runs", "Exec calls by state of their run", ["state"], registry=self._registry)
        self.seconds = Histogram("bitong_run_seconds", "Seconds that runs took", ["executor"], registry=self._registry)
        self.looks = Counter("bitong_looks", "Looks at the repository by outcome", ["outcome"], registry=self._registry)
        self._gauges: dict[str, Gauge] = {}

    def count(self, run: Run) -> None:
        """One more run, once it ended or was refused."""
        if run.state in OPEN:
            return
        self.runs.labels(run.state).inc()
        if run.outcome is not None:
            self.seconds.labels(run.version.definition.executor).observe(run.outcome.duration_ms / 1000)

    def watch(self, readings: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        """Gauges read when asked for: name → (what it is, how to read it)."""
        for name, (what, read) in readings.items():
            gauge = Gauge(f"bitong_{name}", what, registry=self._registry)
            gauge.set_function(read)
            self._gauges[name] = gauge

    def text(self) -> bytes:
        """The exposition, text format 0.0.4."""
        return bytes(generate_latest(self._registry))
