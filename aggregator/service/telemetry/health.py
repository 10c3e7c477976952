"""The health of a service: whether its work makes progress, for people, programs and Prometheus."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

Document = Mapping[str, object]
Samples = Sequence[tuple[Mapping[str, str], float]]


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """A metric of Prometheus' text exposition, and each of its values with its labels."""

    name: str
    help: str
    kind: Literal["gauge", "counter"]
    samples: Samples


@dataclasses.dataclass(frozen=True, slots=True)
class Health:
    """The state of a service at one moment; it is ready if there are no faults.

    Stalls are faults that keep work waiting, but do not keep requests from being answered.
    `metrics` are the details of the document as numbers.
    """

    faults: Sequence[str]
    document: Document
    metrics: Sequence[Metric]
    stalls: Sequence[str] = ()

    @property
    def is_ready(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def obstacles(self) -> Sequence[str]:
        """Why requests should go to another process, if any; empty if they may come here."""
        return [fault for fault in self.faults if fault not in self.stalls]

    @property
    def whole_document(self) -> Document:
        """The details, with the overall status."""
        status = "ok" if self.is_ready else "not ready"
        return {"version": 1, "status": status, "faults": list(self.faults), **self.document}

    @property
    def whole_metrics(self) -> Sequence[Metric]:
        """The numbers, with whether the service is ready, which is always known."""
        samples: Samples = [({}, int(self.is_ready))]
        return [
            Metric("prio_ready", "1 while the service is ready.", "gauge", samples),
            *self.metrics,
        ]


def exposition(metrics: Sequence[Metric]) -> str:
    """Return metrics in Prometheus' text format.

    Source: Prometheus, "Exposition formats", "Text-based format".
    """
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{pairs}}} {value}" if pairs else f"{metric.name} {value}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
