"""Work in threads: in order, and NumPy's own threads are given back."""

from __future__ import annotations

import threading

import pytest

from captious.models import mini as blas


def test_results_in_order():
    assert blas.in_threads(lambda number: number * number, range(20)) == [number * number for number in range(20)]
    assert blas.in_threads(str, []) == []


def test_an_error_comes_out():
    with pytest.raises(ZeroDivisionError):
        blas.in_threads(lambda number: 1 // number, [1, 0])


def test_one_thread_inside_and_as_before_after():
    found = blas._switches()
    if found is None:
        pytest.skip("this NumPy has no OpenBLAS")
    get, put = found
    before = get()
    put(2)
    try:
        with blas.one_thread():
            with blas.one_thread():
                assert get() == 1
            assert get() == 1
        assert get() == 2
    finally:
        put(before)


def test_blocks_of_several_threads_overlap():
    found = blas._switches()
    if found is None:
        pytest.skip("this NumPy has no OpenBLAS")
    get, before, entered, leave = found[0], found[0](), threading.Event(), threading.Event()

    def hold():
        with blas.one_thread():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    assert entered.wait(10)
    with blas.one_thread():
        leave.set()
        other.join(10)
        assert get() == 1  # the other block has ended, this one has not
    assert get() == before
