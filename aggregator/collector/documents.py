"""What the Collector shows of tasks, collections and results: JSON, for the API and the shell.

Exact numbers (epsilon, delta, rho, confidence) are text; every document carries `version`.
"""

import json
from fractions import Fraction

from aggregator.dp.budget import Guarantee, format_rational
from aggregator.protocol.results import Result
from aggregator.protocol.task import Task
from aggregator.storage.collector import StoredCollection

VERSION = 1

Document = dict[str, object]


def task_document(task: Task) -> Document:
    """Return a task as the Collector's readers need it."""
    configuration, circuit = task.configuration, task.prio3.circuit
    mechanism = task.policy.mechanism
    return {
        "version": VERSION,
        "task_id": str(task.task_id),
        "task_info": configuration.task_info.decode(),
        "fingerprint": task.fingerprint,
        "leader": configuration.leader_aggregator_endpoint,
        "helper": configuration.helper_aggregator_endpoint,
        "vdaf": {"type": f"Prio3{circuit.name}", **circuit.parameters},
        "time_precision_seconds": task.time_precision,
        "min_batch_size": task.min_batch_size,
        "privacy": _privacy(
            mechanism.name, mechanism.guarantee(circuit), is_bound=task.is_policy_bound
        ),
        "scale": mechanism.describe_scale(circuit),
    }


def result_document(task: Task, result: Result) -> Document:
    """Return a result with its error bars and everything that it promises."""
    return {
        "version": VERSION,
        "task_id": str(task.task_id),
        "values": list(result.values),
        "report_count": result.report_count,
        "report_count_source": "the leader's word: no ciphertext covers it",
        "interval": _interval(task, result.interval.start.units, result.interval.end.units),
        "privacy": _privacy(result.mechanism, result.guarantee, is_bound=result.is_policy_bound),
        "error": {
            "confidence": format_rational(result.confidence),
            "half_width": result.half_width,
            "joint_half_width": result.joint_half_width,
            "holds": "if both aggregators added their noise and nothing else",
        },
    }


def collection_document(task: Task, stored: StoredCollection) -> Document:
    """Return a collection and what came of it."""
    return {
        "version": VERSION,
        "collection_id": stored.collection_id.hex(),
        "task_id": str(task.task_id),
        "interval": _interval(task, stored.start, stored.end),
        "state": str(stored.state),
        "created_at": stored.created_at,
        "ended_at": stored.ended_at,
        "result": None if stored.result is None else json.loads(stored.result),
        "problem": None if stored.problem is None else json.loads(stored.problem),
    }


def _privacy(mechanism: str, guarantee: Guarantee, *, is_bound: bool) -> Document:
    return {
        "mechanism": mechanism,
        "epsilon": _rational(guarantee.epsilon),
        "delta": _rational(guarantee.delta),
        "rho": _rational(guarantee.rho),
        "neighbours": guarantee.neighbours,
        "statement": guarantee.statement,
        "bound_into_reports": is_bound,
    }


def _interval(task: Task, start: int, end: int) -> Document:
    """Return an interval given in units, in seconds since the epoch."""
    return {"start": start * task.time_precision, "end": end * task.time_precision}


def _rational(value: Fraction | None) -> str | None:
    return None if value is None else format_rational(value)
