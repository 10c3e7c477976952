"""Tasks, collections and results as JSON documents, for the API and the shell.

Exact numbers (epsilon, delta, rho, confidence) are text; every document carries `version`.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from aggregator.codec import decode
from aggregator.collector.results.batches import Batch
from aggregator.collector.results.post_processing import Rule, post_process
from aggregator.dap.attribution import BUDGET_NAME
from aggregator.dap.messages import CollectionJobReq
from aggregator.dp.rationals import format_rational
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.protocol.attribution import least_budget, with_budget
from aggregator.protocol.budget import promise_of_all
from aggregator.protocol.groups import group_in_words
from aggregator.protocol.summary import guarantee_in_short, statement_of, who_must_be_honest

if TYPE_CHECKING:
    from fractions import Fraction

    from aggregator.collector.results.disclosure import Disclosure, Figures
    from aggregator.collector.results.intervals import Bound
    from aggregator.collector.results.result import Result
    from aggregator.collector.store import StoredCollection
    from aggregator.dp.mechanisms import Guarantee
    from aggregator.protocol.task import Task

_VERSION = 1

Document = dict[str, object]


def task_document(task: Task) -> Document:
    """Return a task, for the Collector's readers."""
    configuration, circuit = task.configuration, task.prio3.circuit
    mechanism = task.policy.mechanism
    return {
        "version": _VERSION,
        "task_id": str(task.task_id),
        "task_info": task.info,
        "fingerprint": task.fingerprint,
        "leader": configuration.leader_aggregator_endpoint,
        "helper": configuration.helper_aggregator_endpoint,
        "vdaf": {"type": f"Prio3{circuit.name}", **circuit.parameters},
        "batch_mode": task.configuration.batch_mode.name.lower(),
        "time_precision_seconds": task.time_precision,
        "min_batch_size": task.min_batch_size,
        "privacy": _privacy(task, mechanism.name, mechanism.guarantee(circuit)),
        "scale": mechanism.describe_scale(circuit),
        "error": {
            "confidence": format_rational(DEFAULT_CONFIDENCE),
            # As text, since a tiny epsilon makes it infinite, which JSON cannot hold.
            "variance": f"{mechanism.variance(circuit):.6g}",
            "half_width": mechanism.half_width(circuit, DEFAULT_CONFIDENCE),
            "joint_half_width": mechanism.joint_half_width(circuit, DEFAULT_CONFIDENCE),
            "sections": _widths(task),
        },
    }


def result_document(task: Task, result: Result) -> Document:
    """Return a result with its error bars and its guarantee.

    It holds only what may be shown: a value that the policy withholds is null.
    """
    task = with_budget(task, result.min_dp_budget)
    return {
        "version": _VERSION,
        "task_id": str(task.task_id),
        "values": list(result.values),
        "report_count": result.report_count,
        "report_count_source": "the leader's word: no ciphertext covers it",
        "interval": _interval(task, result.interval.start.units, result.interval.end.units),
        "release": result.release,
        "privacy": _privacy(task, result.mechanism, result.guarantee),
        "scale": result.scale,
        "error": {
            "confidence": format_rational(result.confidence),
            "half_width": result.half_width,
            "joint_half_width": result.joint_half_width,
            "sections": _widths(task),
            "holds": _holds(result.disclosure),
        },
        "intervals": _intervals(task, result),
        "selection": _selection(task, result.disclosure),
        **({} if result.min_dp_budget is None else {BUDGET_NAME: result.min_dp_budget}),
    }


def _intervals(task: Task, result: Result) -> list[Document] | None:
    """Return each value's interval; None if all are the values plus or minus the half width."""
    if result.disclosure.rule == "everything":
        return None
    return [
        {"low": float(found.low), "high": _finite(found.high), "method": found.method}
        for found in (
            each.interval(result.confidence) for each in Batch.of_result(task, result).quantities()
        )
    ]


def _finite(bound: Bound) -> float | None:
    return float(bound) if math.isfinite(bound) else None


def _widths(task: Task) -> list[Document] | None:
    """Return the half widths of each section; None if all are the same."""
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    single = mechanism.half_widths(circuit, DEFAULT_CONFIDENCE)
    joint = mechanism.half_widths(circuit, DEFAULT_CONFIDENCE, jointly=True)
    if len({width for _, width in single}) == 1:
        return None
    return [
        {"values": values, "half_width": width, "joint_half_width": together}
        for (values, width), (_, together) in zip(single, joint, strict=True)
    ]


def post_processed_document(task: Task, result: Document, rule: Rule) -> Document:
    """Return post-processed values of a result's document, to be shown beside the raw ones.

    Raises `ParameterError` if the rule does not apply to this result.
    """
    values, count = result["values"], result["report_count"]
    if not isinstance(values, list) or not isinstance(count, int):
        raise ParameterError("post-process: the result is not what it should be")
    done = post_process(rule, task.prio3.circuit, values, count)
    return {
        "rule": str(done.rule),
        "statement": done.statement,
        "values": [_rational(value) for value in done.values],
        "integers": list(done.integers),
    }


def collection_document(task: Task, stored: StoredCollection) -> Document:
    """Return a collection and its outcome."""
    return {
        "version": _VERSION,
        "collection_id": stored.collection_id.hex(),
        "task_id": str(task.task_id),
        "query": _named(task, stored),
        "state": str(stored.state),
        "reason": stored.reason,
        "created_at": stored.created_at,
        "ended_at": stored.ended_at,
        "result": None if stored.result is None else json.loads(stored.result),
        "problem": None if stored.problem is None else json.loads(stored.problem),
    }


def with_post_processing(task: Task, collection: Document, rule: Rule | None) -> Document:
    """Return a collection's document with `post_processed` beside the result's raw values.

    Without a result or without a rule nothing changes. Raises `ParameterError` if the rule does not
    apply to this result.
    """
    result = collection["result"]
    if rule is None or not isinstance(result, dict):
        return collection
    processed = post_processed_document(task, result, rule)
    return collection | {"result": result | {"post_processed": processed}}


def problem_text(problem: object) -> str:
    """Return a failed collection's problem document as one line."""
    told = problem if isinstance(problem, dict) else {}
    parts = [str(told[key]) for key in ("title", "detail") if told.get(key)]
    return ": ".join(parts) or "the collection failed"


def _selection(task: Task, disclosure: Disclosure) -> Document | None:
    """Return the rule by which values are shown; None if all are."""
    if disclosure.rule == "everything":
        return None
    document: Document = {
        "rule": disclosure.rule,
        "shown": len(disclosure.values) - disclosure.withheld,
        "withheld": disclosure.withheld,
        "guarantee": disclosure.guarantee,
        "caveats": list(disclosure.caveats),
    }
    if disclosure.rule == "threshold" and task.policy.thresholds is not None:
        public = task.policy.thresholds.public_buckets
        limits = disclosure.thresholds
        document["shown_above"] = {
            "private": next((each for j, each in enumerate(limits) if j not in public), None),
            "public": task.policy.thresholds.public,
            "public_buckets": list(public),
        }
    else:
        document["suppressed_at_or_below"] = disclosure.at_or_below
        document["theorem"] = _figures(disclosure.figures)
    return document


def _figures(figures: Figures | None) -> Document | None:
    if figures is None:
        return None
    return {
        "rare_answer": figures.rare,
        "assumed_probability_below": figures.probability,
        "epsilon": float(figures.epsilon),
        "delta": float(figures.delta),
        "sharper": {"epsilon": 0, "delta": float(figures.sharper_delta)},
    }


def _holds(disclosure: Disclosure) -> str:
    holds = "if both aggregators added their noise and nothing else"
    return holds if disclosure.rule == "everything" else f"half widths: before selection; {holds}"


def _privacy(task: Task, mechanism: str, guarantee: Guarantee) -> Document:
    return {
        "mechanism": mechanism,
        "epsilon": _rational(guarantee.epsilon),
        "delta": _rational(guarantee.delta),
        "rho": _rational(guarantee.rho),
        "neighbours": guarantee.neighbours,
        "statement": statement_of(task, guarantee),
        "all_releases": promise_of_all(task),
        "in_short": guarantee_in_short(task),
        "group": group_in_words(task),
        "honest": who_must_be_honest(task),
        "bound_into_reports": task.is_policy_bound,
    }


def _named(task: Task, stored: StoredCollection) -> Document:
    request = decode(CollectionJobReq, stored.request)
    budget = least_budget(task, request)
    paid = {} if budget is None else {BUDGET_NAME: budget}
    return {**task.batching.named(request.query, task.time_precision), **paid}


def _interval(task: Task, start: int, end: int) -> Document:
    """Return an interval of units in seconds since the epoch."""
    return {"start": start * task.time_precision, "end": end * task.time_precision}


def _rational(value: Fraction | None) -> str | None:
    return None if value is None else format_rational(value)
