"""Reading labels off the scores of a sequence model (connectionist temporal classification): the best path, or a beam.

Decoding has no derivative and its result depends on values: it runs on arrays, outside of programs.
"""

from __future__ import annotations

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array
from gradtape.keras.core_ops import convert_to_tensor

_NOTHING = -1  # fills what is beyond the end of a path


def greedy(scores: Tensor, lengths: Tensor, merge_repeated: bool, blank: int | None) -> tuple[Tensor, Tensor]:
    """The best class of each frame, repetitions and blanks left out; and minus the sum of the scores."""
    values, ends = np.asarray(scores.numpy()), np.asarray(lengths.numpy())
    frames, classes = values.shape[1:]
    blank = classes - 1 if blank is None else blank
    beyond = np.arange(frames) >= ends[:, None]
    best = np.where(beyond, blank, values.argmax(-1))
    total = np.where(beyond, 0.0, values.max(-1)).sum(1, keepdims=True)
    repeated = np.zeros_like(best, dtype=bool)
    if merge_repeated:
        repeated[:, 1:] = best[:, 1:] == best[:, :-1]
    paths = np.full(best.shape, _NOTHING, np.int32)
    for path, row, left_out in zip(paths, best, repeated | (best == blank), strict=True):
        kept = row[~left_out]
        path[: len(kept)] = kept
    return convert_to_tensor(paths[None], "int32"), convert_to_tensor(-total, scores.dtype)


def beam_search(scores: Tensor, lengths: Tensor, width: int, top: int, blank: int | None) -> tuple[Tensor, Tensor]:
    """The `top` most probable labellings, each with the logarithm of the probability of the alignments that were kept."""
    values, ends = np.asarray(scores.numpy()), np.asarray(lengths.numpy())
    logs = values - np.logaddexp.reduce(values, axis=-1, keepdims=True)
    classes = logs.shape[-1]
    blank = classes - 1 if blank is None else blank
    paths = np.full((top, len(logs), logs.shape[1]), _NOTHING, np.int32)
    totals = np.full((len(logs), top), -np.inf, logs.dtype)
    for b, (rows, end) in enumerate(zip(logs, ends, strict=True)):
        for place, (labels, total) in enumerate(_beam(rows[: int(end)], width, blank)[:top]):
            paths[place, b, : len(labels)] = labels
            totals[b, place] = total
    return convert_to_tensor(paths, "int32"), convert_to_tensor(totals, scores.dtype)


def _beam(rows: Array, width: int, blank: int) -> list[tuple[tuple[int, ...], float]]:
    """Prefixes with the probabilities that they end in a blank and in their last label, the best `width` after each frame."""
    never = -np.inf
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, never)}
    for row in rows:
        grown: dict[tuple[int, ...], list[float]] = {}
        for labels, (by_blank, by_label) in beam.items():
            both = np.logaddexp(by_blank, by_label)
            for label, log in enumerate(row):
                if label == blank:
                    _add(grown, labels, 0, both + log)
                elif labels and labels[-1] == label:
                    _add(grown, labels, 1, by_label + log)
                    _add(grown, (*labels, label), 1, by_blank + log)
                else:
                    _add(grown, (*labels, label), 1, both + log)
        # of equal ones the smaller labels come first
        best = sorted(grown.items(), key=lambda item: (-float(np.logaddexp(item[1][0], item[1][1])), item[0]))[:width]
        beam = {labels: (pair[0], pair[1]) for labels, pair in best}
    return [(labels, float(np.logaddexp(*pair))) for labels, pair in beam.items()]


def _add(grown: dict[tuple[int, ...], list[float]], labels: tuple[int, ...], kind: int, log: float) -> None:
    pair = grown.setdefault(labels, [-np.inf, -np.inf])
    pair[kind] = float(np.logaddexp(pair[kind], log))
