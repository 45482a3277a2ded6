"""Names of layers: unique, and found without a search over the numbers that are in use."""

from typing import Any

from onnx_compat_keras.functional.names import Names


def test_equal_names_are_numbered_in_steps_in_proportion_to_their_count() -> None:
    class Used(set):  # type: ignore[type-arg]  # counts the questions
        lookups = 0

        def __contains__(self, name: Any) -> bool:
            Used.lookups += 1
            return super().__contains__(name)

    names, count = Names(), 500
    names.used_names = Used()
    assert [names.fresh("a/b") for _ in range(count)] == ["a_b", *("a_b_%d" % k for k in range(1, count))]
    assert Used.lookups <= 2 * count


def test_a_number_that_a_name_has_already_is_passed_over() -> None:
    names = Names()
    assert [names.fresh(wanted) for wanted in ("a_1", "a", "a", "a", "a_1")] == ["a_1", "a", "a_2", "a_3", "a_1_1"]
