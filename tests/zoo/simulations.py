"""Simulations: integrators, bouncing balls, diffusion, populations, circuits, queues, optics, finance."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo


@zoo([(0.5, 2.0), (1.2, 0.7)])
def pendulum_runge_kutta(angle, k):
    def slope(s):
        return gt.stack([s[1], -k * gt.sin(s[0])])

    state = gt.stack([angle, gt.zeros([], gt.float64)])
    for _ in range(6):
        k1 = slope(state)
        k2 = slope(state + 0.05 * k1)
        k3 = slope(state + 0.05 * k2)
        k4 = slope(state + 0.1 * k3)
        state = state + (0.1 / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return state


@zoo([(0.5, 2.0, np.int32(8)), (1.2, 0.7, np.int32(3))])
def pendulum_with_a_tensor_count(angle, k, n):
    speed = angle * 0.0
    for _ in gt.range(n):
        speed -= 0.1 * k * gt.sin(angle)
        angle += 0.1 * speed
    return angle, speed


@zoo([(1.3, 0.9), (0.5, 1.7)])
def adaptive_euler(y, rate):
    t, h = 0.0, 0.5
    n = 0
    while t < 1.0 and n < 12:
        step = min(h, 1.0 - t)
        euler = y - step * rate * y
        heun = y - step * rate * (y - 0.5 * step * rate * y)
        n += 1
        if abs(heun - euler) > 0.05:
            h = step / 2
            continue
        y, t, h = heun, t + step, h * 1.5
    return y * y


@zoo([(1.0, 0.5), (0.36, -1.1)])
def bouncing_ball(y, v):
    bounces = 0
    for _ in range(20):
        v = v - 9.81 * 0.05
        y = y + v * 0.05
        if y < 0:
            y, v = -y, -0.8 * v
            bounces += 1
    return y, bounces


@zoo([(1.0, 0.5), (0.31, -1.0)])
def time_of_first_bounce(y, v):
    t = 0.0
    while True:
        v = v - 9.81 * 0.05
        new = y + v * 0.05
        if new < 0:
            return t + 0.05 * y / (y - new)
        y = new
        t += 0.05


@zoo([([0.5, -0.3, 0.8, 0.1],)])
def heat_equation(source):
    u = gt.zeros([6], gt.float64)
    for _ in range(5):
        u[1:-1] += 0.2 * (u[2:] - 2.0 * u[1:-1] + u[:-2]) + source
    return u


@zoo([([0.1, 0.5, 0.9, 0.5, 0.1], 0.4, np.int32(4))])
def wave_equation_staged(u, c, n):
    before = u * 1.0
    for _ in gt.range(n):
        after = 2.0 * u - before
        after[1:-1] += c * c * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        after[0] = 0.0
        after[-1] = 0.0
        before, u = u, after
    return u


@zoo([(0.3, 0.1, np.int32(6))])
def epidemic(beta, gamma, days):
    s, i, r = 0.99, 0.01, 0.0
    peak = i
    for _ in gt.range(days):
        new = beta * s * i * 5.0
        gone = gamma * i
        s, i, r = s - new, i + new - gone, r + gone
        if i > peak:
            peak = i
    return peak, r


@zoo([(1.1, 0.4, np.int32(10))])
def predator_and_prey(a, b, n):
    world = {"prey": gt.constant(1.0, gt.float64), "predator": gt.constant(0.5, gt.float64)}
    for _ in gt.range(n):
        prey, predator = world["prey"], world["predator"]
        world["prey"] = prey + 0.1 * prey * (a - b * predator)
        world["predator"] = predator + 0.1 * predator * (b * prey - 0.3)
    return world


@zoo([([[0.0, 0.1], [1.0, 0.2], [0.3, 0.9]], [1.0, 2.0, 0.5])])
def three_bodies(x, m):
    v = x * 0.0
    for _ in range(3):
        force = []
        for i in range(3):
            f = x[0] * 0.0
            for j in range(3):
                if i != j:
                    d = x[j] - x[i]
                    f = f + m[j] * d / (gt.reduce_sum(d * d) + 0.1) ** 1.5
            force.append(f)
        v = v + 0.1 * gt.stack(force)
        x = x + 0.1 * v
    return x


@zoo([(0.9, 0.3, np.int32(5))])
def leapfrog_with_gradient_of_energy(q, p, n):
    def energy(t):
        return 0.5 * t * t + 0.1 * t**4

    def force(t):
        with gt.GradientTape() as tape:
            tape.watch(t)
            e = energy(t)
        return -tape.gradient(e, t)

    for _ in gt.range(n):
        p = p + 0.05 * force(q)
        q = q + 0.1 * p
        p = p + 0.05 * force(q)
    return q, p


@zoo([(3.9,), (2.7,)])
def logistic_map(r):
    x = 0.31
    for _ in range(6):
        x = r * x * (1.0 - x) * 0.9
    return x


@zoo([(0.5, 5.0), (1.5, 2.0)])
def charging_until_a_threshold(current, threshold):
    charge, steps = 0.0, 0
    while charge < threshold:
        charge = charge + current * (1.0 - 0.05 * charge)
        steps += 1
        if steps > 50:
            break
    return charge * current, steps


@zoo([([0.4, 1.2, 0.35, 0.9], [0.5, 0.55, 0.75, 0.2])])
def single_server_queue(gaps, services):
    clock, free, waited = 0.0, 0.0, 0.0
    for gap, service in zip(gaps, services):
        clock = clock + gap
        if free > clock:
            waited = waited + (free - clock)
            free = free + service
        else:
            free = clock + service
    return waited, free


@zoo([([0.1, -0.2, 0.15, 0.05], 1.0, 1.05), ([-0.1, -0.2, -0.15, 0.05], 1.0, 1.05)])
def barrier_option(shocks, price, barrier):
    alive = True
    for z in shocks:
        price = price * gt.exp(0.3 * z)
        if price > barrier:
            alive = False
    return price * 2.0 if alive else price * 0.5


@zoo([(1.0, 0.2, 0.05)])
def binomial_tree(spot, sigma, rate):
    n = 4
    up = gt.exp(sigma * 0.5)
    prices = gt.stack([spot * up ** float(n - 2 * k) for k in range(n + 1)])
    values = gt.nn.softplus((prices - 0.93) * 8.0) / 8.0
    p = (gt.exp(rate * 0.25) - 1.0 / up) / (up - 1.0 / up)
    for _ in range(n):
        values = gt.exp(-rate * 0.25) * (p * values[:-1] + (1.0 - p) * values[1:])
    return values[0]


@zoo([(0.2, 0.5), (0.6, 1.2)])
def snell_through_layers(angle, depth):
    n = 1.0
    x = depth * 0.0
    for next_n in [1.1, 1.25, 1.4]:
        sine = gt.sin(angle) * n / next_n
        angle = gt.asin(sine)
        x = x + depth * gt.tan(angle)
        n = next_n
    return x


@zoo([(0.8, [0.5, 1.5, -0.2, 0.3]), (2.5, [0.5, 1.5, -0.2, 0.3])])
def thermostat_with_hysteresis(room, outside):
    heating = False
    used = 0.0
    for t in outside:
        if room < 1.0:
            heating = True
        elif room > 2.0:
            heating = False
        if heating:
            room = room + 0.7
            used += 0.7
        room = room + 0.3 * (t - room)
    return room, used


@zoo([([0.3, 0.9, -0.2, 0.6], 0.5, 0.1)])
def pid_controller(targets, p, i):
    plant = SimpleNamespace(y=0.0, integral=0.0, cost=0.0)
    for target in targets:
        error = target - plant.y
        plant.integral = plant.integral + error
        plant.y = plant.y + 0.5 * (p * error + i * plant.integral)
        plant.cost = plant.cost + error * error
    return plant.cost


@zoo([([[0.2, 0.8], [0.6, 0.4]], [0.3, 0.7], np.int32(4))])
def markov_chain(m, p, n):
    for _ in gt.range(n):
        p = gt.linalg.matvec(gt.transpose(m), p)
        p = p / gt.reduce_sum(p)
    return p


@zoo([(0.9, 1.5), (0.1, 0.5)])
def rocket_with_stages(thrust, mass):
    v, stage = 0.0, 0
    fuel = 1.0
    for _ in range(6):
        if fuel > 0.2:
            v = v + 0.2 * thrust / (mass + fuel) - 0.05
            fuel = fuel - 0.25
        elif stage == 0:
            stage = 1
            mass = mass * 0.6
            fuel = 0.45
        else:
            v = v * 0.95
    return v, stage


@zoo([([[0.0, 1.0, 0.0], [0.3, 0.0, 0.4], [0.0, 0.2, 0.0]],)])
def cellular_smoothing(grid):
    for _ in range(2):
        padded = gt.pad(grid, [[1, 1], [1, 1]])
        total = 0.0
        for dy in range(3):
            for dx in range(3):
                total = total + padded[dy : dy + 3, dx : dx + 3]
        grid = gt.tanh(total / 5.0)
    return grid


@zoo([(0.2, 0.05), (0.9, 0.3)])
def mortgage_until_paid(payment, rate):
    debt = 1.0
    months = 0
    paid = 0.0
    while debt > payment and months < 40:
        debt = debt * (1.0 + rate * 0.5) - payment
        paid += payment
        months += 1
    return debt, months, paid
