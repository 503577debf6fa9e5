from captious.testing import check_metric


def test_rare_words():
    check_metric("rare_words(among=3)")
