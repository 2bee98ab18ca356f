"""Sequences: small parsers and interpreters, dynamic programming, run lengths, filters, string-driven programs."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

TOKENS = np.array([0, 0, 2, 0, 3, 1], np.int32)


@zoo([("x 2 * sin y +", 0.7, 0.3), ("x y * x - exp", 0.7, 0.3)])
def reverse_polish_calculator(program, x, y):
    stack = []
    for word in program.split():
        if word == "x":
            stack.append(x)
        elif word == "y":
            stack.append(y)
        elif word in "+-*":
            b, a = stack.pop(), stack.pop()
            if word == "+":
                stack.append(a + b)
            elif word == "-":
                stack.append(a - b)
            else:
                stack.append(a * b)
        elif word in ("sin", "exp"):
            stack.append(getattr(gt, word)(stack.pop()))
        else:
            stack.append(float(word))
    return stack[-1]


@zoo([(np.array([0, 2, 1, 3], np.int32), 0.4), (np.array([3, 3, 0, 1], np.int32), 0.4)])
def bytecode_interpreter(code, x):
    acc = x
    for op in code:
        if op == 0:
            acc = acc + x
        elif op == 1:
            acc = acc * x
        elif op == 2:
            acc = gt.sin(acc)
        else:
            acc = gt.exp(acc * 0.5)
    return acc


@zoo([(np.array([1, 1, -1, 1, -1, -1], np.int32), 0.5), (np.array([1, -1, -1, 1, 1, 1], np.int32), 0.5)])
def bracket_depth(tokens, x):
    depth, deepest, weight = 0, 0, x
    for t in tokens:
        depth += t
        if depth < 0:
            break
        deepest = max(deepest, depth)
        weight = weight * (1.0 + 0.1 * gt.cast(depth, gt.float64) * x)
    return weight, depth, deepest


@zoo([(np.array([1, 1, 2, 2, 2, 1], np.int32), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])])
def run_length_scores(ids, scores):
    best = scores[0] * 0.0
    current = scores[0] * 0.0
    previous = -1
    for i, s in zip(ids, scores):
        if i == previous:
            current = current + s * s
        else:
            current = s * 1.0
        previous = i
        if current > best:
            best = current
    return best


@zoo([([0.1, 0.8, 0.3, 0.9], [0.2, 0.7, 0.4])])
def dynamic_time_warping(a, b):
    n, m = len(a), len(b)
    cost = [[None] * m for _ in range(n)]
    for i in range(n):
        for j in range(m):
            d = (a[i] - b[j]) ** 2
            if i == 0 and j == 0:
                cost[i][j] = d
            elif i == 0:
                cost[i][j] = d + cost[i][j - 1]
            elif j == 0:
                cost[i][j] = d + cost[i - 1][j]
            else:
                cost[i][j] = d + min(cost[i - 1][j], cost[i][j - 1], cost[i - 1][j - 1])
    return cost[n - 1][m - 1]


@zoo([([0.1, 0.8, 0.3], [0.2, 0.7, 0.4], np.int32(3))])
def soft_warping_in_a_tensor(a, b, n):
    table = gt.fill([4, 4], gt.constant(3.0, gt.float64))
    table[0, 0] = 0.0
    for i in gt.range(n):
        for j in gt.range(n):
            near = gt.stack([table[i, j], table[i, j + 1], table[i + 1, j]])
            table[i + 1, j + 1] = (a[i] - b[j]) ** 2 - gt.reduce_logsumexp(-near)
    return table[n, n]


@zoo([([[0.6, 0.4], [0.3, 0.7]], [[0.9, 0.1], [0.2, 0.8]], np.array([0, 1, 1, 0], np.int32))])
def hidden_markov_forward(transition, emission, observed):
    alpha = gt.constant(np.array([0.5, 0.5]))
    log_likelihood = 0.0
    for o in observed:
        alpha = gt.linalg.matvec(gt.transpose(transition), alpha) * emission[:, o]
        total = gt.reduce_sum(alpha)
        alpha = alpha / total
        log_likelihood += gt.math.log(total)
    return log_likelihood


@zoo([([[0.6, -0.4], [0.3, 0.7], [0.1, 0.5]], [[0.2, -0.1], [0.4, 0.3]])])
def viterbi_score(unary, pair):
    score = unary[0]
    for row in unary[1:]:
        score = gt.reduce_max(score[:, None] + pair, 0) + row
    return max(score)


@zoo([([[0.6, -0.4, 0.2], [0.3, 0.7, 0.1], [0.1, 0.5, 0.9], [0.4, 0.2, 0.3]], np.array([1, 2], np.int32))])
def ctc_like_forward(logits, labels):
    n = len(labels)
    rows = gt.nn.log_softmax(logits)
    alpha = [rows[0][0]] + [gt.constant(-30.0, gt.float64) for _ in range(n)]
    for row in rows[1:]:
        new = [alpha[0] + row[0]]
        for k in range(n):
            stay = alpha[k + 1] + row[0]
            move = alpha[k] + row[labels[k]]
            new.append(gt.reduce_logsumexp(gt.stack([stay, move])))
        alpha = new
    return alpha[-1]


@zoo([([0.9, -0.4, 0.3, 1.4, -0.2],), ([-0.9, -0.4, -0.3, -1.4, -0.2],)])
def maximum_subarray(v):
    best, current = v[0], v[0]
    for x in v[1:]:
        current = max(x, current + x)
        best = max(best, current)
    return best * best


@zoo([([3.0, 1.0, 2.5, 0.4],)])
def running_median_of_three(v):
    out = []
    for i in range(len(v) - 2):
        a, b, c = v[i], v[i + 1], v[i + 2]
        out.append(max(min(a, b), min(max(a, b), c)))
    return gt.stack(out) * 2.0


@zoo([([0.9, 0.4, 0.3, 1.4], np.int32(2)), ([0.9, 0.4, 0.3, 1.4], np.int32(4))])
def moving_average_window(v, width):
    out = gt.TensorArray(gt.float64, size=4)
    for i in gt.range(4):
        start = gt.maximum(i - width + 1, 0)
        total, count = 0.0, 0.0
        for j in gt.range(start, i + 1):
            total += v[j]
            count += 1.0
        out = out.write(i, total / count)
    return out.stack()


@zoo([([0.9, 0.4, 0.3, 1.4], "mean"), ([0.9, 0.4, 0.3, 1.4], "last"), ([0.9, 0.4, 0.3, 1.4], "max")])
def pooling_by_name(v, how):
    table = {"mean": gt.reduce_mean, "max": gt.reduce_max, "last": lambda t: t[-1]}
    return table[how](v * v)


@zoo([(TOKENS, [0.5, 0.2, 0.9, 0.3]), (np.array([1, 0, 0, 0, 0, 0], np.int32), [0.5, 0.2, 0.9, 0.3])])
def tokens_until_end(tokens, weights):
    total = gt.zeros([], gt.float64)
    count = 0
    for t in tokens:
        if t == 1:
            break
        total = total + gt.sin(weights[t])
        count += 1
    return total, count


@zoo([([0.5, 0.2, 0.9], np.int32(4)), ([0.1, 0.2, 0.05], np.int32(4))])
def greedy_decoding_until_confident(logits, limit):
    state = logits
    path = gt.TensorArray(gt.float64, size=0, dynamic_size=True, element_shape=())
    i = 0
    while i < limit:
        p = gt.nn.softmax(state)
        path = path.write(i, gt.reduce_max(p))
        i += 1
        if gt.reduce_max(p) > 0.5:
            break
        state = state * 1.7
    return gt.reduce_sum(path.stack())


@zoo([([0.3, 0.7, 0.2], [0.5, 0.1, 0.9])])
def merge_of_two_sorted_scans(a, b):
    total, i, j = 0.0, 0, 0
    a, b = gt.sort(a), gt.sort(b)
    while i < 3 and j < 3:
        if a[i] < b[j]:
            total = total * 0.5 + a[i]
            i += 1
        else:
            total = total * 0.5 + b[j] * b[j]
            j += 1
    return total


@zoo([("aab", 0.4), ("", 0.4), ("bbbb", 0.4)])
def regular_expression_machine(text, x):
    state, score = "start", x
    for letter in text:
        if state == "start" and letter == "a":
            state = "seen"
            score = gt.sin(score)
        elif letter == "b":
            state = "start"
            score = score * score + 0.1
    return score


@zoo([([[0.2, 0.9, 0.4], [0.7, 0.1, 0.8], [0.3, 0.6, 0.5]],)])
def cheapest_path_through_a_grid(grid):
    n = 3
    best = {}
    for i in range(n):
        for j in range(n):
            here = grid[i, j]
            if i and j:
                here = here + min(best[i - 1, j], best[i, j - 1])
            elif i:
                here = here + best[i - 1, j]
            elif j:
                here = here + best[i, j - 1]
            best[i, j] = here
    return best[n - 1, n - 1] ** 2


@zoo([([0.2, 0.5, 0.3], [1.0, 2.0, 3.0])])
def knapsack_relaxed(weights, prices):
    order = sorted(range(3), key=lambda k: float(k))
    room, total = 0.6, 0.0
    for k in order:
        take = gt.minimum(weights[k], room)
        total = total + prices[k] * take / weights[k]
        room = room - take
        if room < 1e-9:
            break
    return total


@zoo([([0.3, -0.7, 0.2, 0.9],)])
def pairs_of_neighbours(v):
    return sum((a - b) ** 2 for a, b in zip(v[:-1], v[1:]))
