"""Loops in explicit vectors, which LLVM does not find by itself.

Each has two forms. The plain one is what it computes, and what runs uncompiled. In compiled kernels
an intrinsic takes its place, which writes LLVM's vector instructions; LLVM splits vectors that are
wider than the machine's. Products and sums may be fused there, so the last bit may differ.
"""

from __future__ import annotations

import llvmlite.ir as ir
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from gapmf.kernels.jit import OPTIONS
from gapmf.kernels.random import LOW, MULTIPLIER_0, MULTIPLIER_1, WEYL_0, WEYL_1, U, philox
from gapmf.kernels.random import SHIFT as HALF_WORD

f4 = np.float32

TOKENS_AT_ONCE = 64  # the halves of 32 words
LANES = 8  # that `running_sums` and `eight_words` take at once
SHIFT = 1.5 * 2.0**52  # adding and taking it away rounds a double below 2⁵¹ to a whole number

FLOAT, DOUBLE, INDEX = ir.FloatType(), ir.DoubleType(), ir.IntType(64)
WORD, HALF = ir.IntType(32), ir.IntType(16)
BYTES = {FLOAT: 4, DOUBLE: 8, WORD: 4, HALF: 2}
FUSE = ("contract",)


def running_sums(rows, at, h, tile, lane, stride, following):
    """tile[k, lane + i] = Σ_{l≤k} h_l w_l, with w = rows[at[i]:], for eight lanes i.

    The tile is flat, its rows are `stride` apart. h.size is a multiple of four. Rows at `following`
    are those of the next eight lanes: compiled, they are fetched into the cache meanwhile.
    """
    for i in range(LANES):
        z = f4(0)
        for k in range(h.size):
            z = z + h[k] * rows[at[i] + k]
            tile[k * stride + lane + i] = z


def add_products(factors, at, n, rows, row, h, K4, c):
    """c_k += Σ_i factors_i p_k h_k, each term rounded, with p = rows[row:], h = h[at[i]:].

    c begins at `row`, too. There are n terms, and K4 components: a multiple of four.
    """
    for k in range(K4):
        p = np.float64(rows[row + k])
        for i in range(n):
            c[row + k] += (factors[i] * (p * np.float64(h[at[i] + k])) + SHIFT) - SHIFT


def eight_words(words, at, gap, counter, step, key):
    """Fill the four words of Philox at eight counters: words[at + i], words[at + gap + i], … .

    Counter i has step[0] i added to its first word, and step[1] i to its second.
    """
    for i in range(LANES):
        c0, c1 = (U(counter[j]) + U(step[j]) * U(i) for j in range(2))
        found = philox(c0, c1, counter[2], counter[3], key[0], key[1])
        for q in range(4):
            words[at + q * gap + i] = found[q]


def halves_below(words, first, n, bound):
    """Give which of n ≤ 64 halves of words are below a bound, and which equal, as bits.

    The low half of a word is the first; `first` counts halves.
    """
    below, equal = 0, 0
    for i in range(n):
        at = first + i
        half = int(words[at >> 1]) >> (16 * (at & 1)) & 0xFFFF
        below |= (half < bound) << i
        equal |= (half == bound) << i
    return U(below), U(equal)


def count_bits(x):
    """Give how many bits of 64 are set."""
    return int(x).bit_count()


def _vector(scalar, n):
    return ir.VectorType(scalar, n)


class _Writer:
    """LLVM's instructions on arrays of Numba: loads and stores of unaligned vectors."""

    def __init__(self, context, builder, sig, args):
        self.builder = b = builder
        self.values = [
            context.make_array(kind)(context, b, value).data
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(sig.args, args, strict=True)
        ]

    def _place(self, array, index, scalar, n):
        pointer = self.builder.gep(array, [index])
        return self.builder.bitcast(pointer, _vector(scalar, n).as_pointer())

    def load(self, array, index, scalar, n):
        loaded = self.builder.load(self._place(array, index, scalar, n))
        loaded.align = BYTES[scalar]
        return loaded

    def store(self, value, array, index, scalar, n):
        stored = self.builder.store(value, self._place(array, index, scalar, n))
        stored.align = BYTES[scalar]

    def prefetch(self, array, index):
        """Fetch the cache line of an element, to be read soon."""
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = self.builder.bitcast(self.builder.gep(array, [index]), byte)
        read, soon, data = (ir.Constant(number, i) for i in (0, 3, 1))
        self.builder.call(fetch, [place, read, soon, data])

    def pick(self, a, b, order):
        """Give the elements of a and b in this order."""
        mask = ir.Constant(_vector(ir.IntType(32), len(order)), list(order))
        return self.builder.shuffle_vector(a, b, mask)

    def repeat(self, scalar, n):
        none = ir.Constant(_vector(scalar.type, n), ir.Undefined)
        first = self.builder.insert_element(none, scalar, ir.Constant(ir.IntType(32), 0))
        return self.pick(first, none, [0] * n)

    def scalar(self, array, index):
        return self.builder.load(self.builder.gep(array, [index]))

    def fused(self, a, b, c):
        """a b + c."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=FUSE), c, flags=FUSE)

    def variable(self, scalar, n):
        return cgutils.alloca_once(self.builder, _vector(scalar, n))

    def whole(self, i):
        return ir.Constant(INDEX, i)


def _transposed(w, quarters):
    """Turn eight vectors of four components into four vectors of eight lanes."""
    pairs = [w.pick(quarters[i], quarters[i + 4], range(8)) for i in range(4)]
    low, high = (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)
    halves = [w.pick(pairs[i], pairs[i + 1], order) for order in (low, high) for i in (0, 2)]
    first, second = (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)
    return [w.pick(halves[i], halves[i + 1], order) for i in (0, 2) for order in (first, second)]


@intrinsic
def _running_sums(typing, rows, at, h, n_blocks, tile, lane, stride, following):
    """`running_sums`, of n_blocks times four components."""

    def write(context, builder, sig, args):
        w = _Writer(context, builder, sig, args)
        rows, at, h, n_blocks, tile, lane, stride, following = w.values
        starts = [builder.extract_value(at, i) for i in range(LANES)]
        next_starts = cgutils.pack_array(builder, cgutils.unpack_tuple(builder, following))
        later = cgutils.alloca_once_value(builder, next_starts)
        total = w.variable(FLOAT, LANES)
        builder.store(ir.Constant(_vector(FLOAT, LANES), [0.0] * LANES), total)
        with cgutils.for_range(builder, n_blocks) as loop:
            first = builder.shl(loop.index, w.whole(2))
            # A line has sixteen weights, four blocks: two of the eight lines in each of these.
            line = builder.and_(first, w.whole(-16))
            for i in range(2):
                which = builder.lshr(builder.and_(first, w.whole(12)), w.whole(1))
                which = builder.add(which, w.whole(i))
                start = builder.load(builder.gep(later, [w.whole(0), which]))
                w.prefetch(rows, builder.add(start, line))
            quarters = [w.load(rows, builder.add(start, first), FLOAT, 4) for start in starts]
            z = builder.load(total)
            for j, weights in enumerate(_transposed(w, quarters)):
                k = builder.add(first, w.whole(j))
                z = w.fused(w.repeat(w.scalar(h, k), LANES), weights, z)
                w.store(z, tile, builder.add(builder.mul(k, stride), lane), FLOAT, LANES)
            builder.store(z, total)
        return context.get_dummy_value()

    return types.void(rows, at, h, n_blocks, tile, lane, stride, following), write


@intrinsic
def _add_products(typing, factors, at, n, rows, row, h, n_blocks, c):
    """`add_products`, of n_blocks times four components: sixteen at once while there are."""

    def write_block(w, first, n_vectors, width):
        """Keep the sums of n_vectors × width components in registers while the terms pass by."""
        builder = w.builder
        factors, at, n, rows, row, h, _, c = w.values
        shift = w.repeat(ir.Constant(DOUBLE, SHIFT), width)
        wide = _vector(DOUBLE, width)
        places = [builder.add(first, w.whole(width * j)) for j in range(n_vectors)]
        p, sums = [], []
        for place in places:
            where = builder.add(row, place)
            p.append(builder.fpext(w.load(rows, where, FLOAT, width), wide))
            sums.append(w.variable(DOUBLE, width))
            builder.store(w.load(c, where, DOUBLE, width), sums[-1])
        with cgutils.for_range(builder, n) as loop:
            factor = w.repeat(w.scalar(factors, loop.index), width)
            start = w.scalar(at, loop.index)
            for place, weight, total in zip(places, p, sums, strict=True):
                drawn = w.load(h, builder.add(start, place), FLOAT, width)
                term = builder.fmul(weight, builder.fpext(drawn, wide))
                rounded = builder.fsub(w.fused(factor, term, shift), shift)
                builder.store(builder.fadd(builder.load(total), rounded), total)
        for place, total in zip(places, sums, strict=True):
            w.store(builder.load(total), c, builder.add(row, place), DOUBLE, width)

    def write(context, builder, sig, args):
        w = _Writer(context, builder, sig, args)
        n_blocks = w.values[6]
        # Sixteen components while there are; then eight and four, if so many are left.
        done = w.whole(0)
        for shift, n_vectors, width in ((2, 2, 8), (1, 1, 8), (0, 1, 4)):
            left = builder.sub(n_blocks, done)
            n_times = builder.lshr(left, w.whole(shift))
            with cgutils.for_range(builder, n_times) as loop:
                block = builder.add(done, builder.shl(loop.index, w.whole(shift)))
                write_block(w, builder.shl(block, w.whole(2)), n_vectors, width)
            done = builder.add(done, builder.shl(n_times, w.whole(shift)))
        return context.get_dummy_value()

    return types.void(factors, at, n, rows, row, h, n_blocks, c), write


@intrinsic
def _eight_words(typing, words, at, gap, counter, step, key):
    """`eight_words`: products of 32 bits in lanes of 64."""

    def write(context, builder, sig, args):
        w = _Writer(context, builder, sig, args)
        words, at, gap, counter, step, key = w.values
        wide = _vector(INDEX, LANES)

        def all_lanes(value):
            return ir.Constant(wide, [int(value)] * LANES)

        low, shift = all_lanes(LOW), all_lanes(HALF_WORD)
        numbers = ir.Constant(wide, list(range(LANES)))
        c = [w.repeat(builder.extract_value(counter, i), LANES) for i in range(4)]
        for i in range(2):
            steps = w.repeat(builder.extract_value(step, i), LANES)
            c[i] = builder.add(c[i], builder.mul(steps, numbers))
        c = [builder.and_(x, low) for x in c]
        k = [builder.and_(builder.extract_value(key, i), w.whole(int(LOW))) for i in range(2)]
        for _ in range(10):
            p0 = builder.mul(c[0], all_lanes(MULTIPLIER_0))
            p1 = builder.mul(c[2], all_lanes(MULTIPLIER_1))
            high = [builder.lshr(p, shift) for p in (p1, p0)]
            mixed = [
                builder.xor(builder.xor(high[j], c[2 * j + 1]), w.repeat(k[j], LANES))
                for j in range(2)
            ]
            c = [mixed[0], builder.and_(p1, low), mixed[1], builder.and_(p0, low)]
            k = [
                builder.and_(builder.add(k[j], w.whole(int(weyl))), w.whole(int(LOW)))
                for j, weyl in enumerate((WEYL_0, WEYL_1))
            ]
        for x in c:
            w.store(builder.trunc(x, _vector(WORD, LANES)), words, at, WORD, LANES)
            at = builder.add(at, gap)
        return context.get_dummy_value()

    return types.void(words, at, gap, counter, step, key), write


@intrinsic
def _halves_below(typing, words, first, n, bound):
    """`halves_below`: compared in one vector."""

    def write(context, builder, sig, args):
        w = _Writer(context, builder, sig, args)
        words, first, n, bound = w.values
        halves = w.load(builder.bitcast(words, HALF.as_pointer()), first, HALF, TOKENS_AT_ONCE)
        bounds = w.repeat(builder.trunc(bound, HALF), TOKENS_AT_ONCE)
        used = builder.lshr(w.whole(-1), builder.sub(w.whole(TOKENS_AT_ONCE), n))
        most = builder.icmp_unsigned(">", bound, w.whole(0xFFFF))
        below, equal = (
            builder.bitcast(builder.icmp_unsigned(how, halves, bounds), INDEX)
            for how in ("<", "==")
        )
        below = builder.and_(used, builder.select(most, w.whole(-1), below))
        equal = builder.and_(used, builder.select(most, w.whole(0), equal))
        return context.make_tuple(builder, sig.return_type, (below, equal))

    return types.UniTuple(types.uint64, 2)(words, first, n, bound), write


@intrinsic
def _count_bits(typing, x):
    def write(context, builder, sig, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), write


@overload(halves_below, jit_options=OPTIONS, inline="always")
def _compiled_halves_below(words, first, n, bound):
    def compiled(words, first, n, bound):
        return _halves_below(words, first, n, bound)

    return compiled


@overload(count_bits, jit_options=OPTIONS, inline="always")
def _compiled_count_bits(x):
    def compiled(x):
        return _count_bits(x)

    return compiled


@overload(eight_words, jit_options=OPTIONS, inline="always")
def _compiled_eight_words(words, at, gap, counter, step, key):
    def compiled(words, at, gap, counter, step, key):
        _eight_words(words, at, gap, counter, step, key)

    return compiled


@overload(running_sums, jit_options=OPTIONS, inline="always")
def _compiled_running_sums(rows, at, h, tile, lane, stride, following):
    def compiled(rows, at, h, tile, lane, stride, following):
        _running_sums(rows, at, h, h.size >> 2, tile, lane, stride, following)

    return compiled


@overload(add_products, jit_options=OPTIONS, inline="always")
def _compiled_add_products(factors, at, n, rows, row, h, K4, c):
    def compiled(factors, at, n, rows, row, h, K4, c):
        _add_products(factors, at, n, rows, row, h, K4 >> 2, c)

    return compiled
