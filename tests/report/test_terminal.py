from captious.captions import CaptionSet
from captious.evaluation import evaluate
from captious.report.terminal import print_run, print_worst, worst


def test_the_worst_come_first_whatever_the_direction():
    captions = CaptionSet.of({"good": "a b", "bad": "x"}, {"good": ["a b"], "bad": ["a b"]})
    assert worst(evaluate(captions, "rouge")["rouge"]) == [1, 0]
    varied = CaptionSet.of({"dull": ["a b c d", "a b c d"], "lively": ["a b c d", "e f g h"]})
    assert worst(evaluate(varied, "mbleu")["mbleu"]) == [0, 1]


def test_brackets_in_ids_names_and_captions_are_printed_as_they_are(capsys):
    captions = CaptionSet.of({"[/red]": "a [bold] dog"}, {"[/red]": ["a [dog]"]}, name="x[red].json")
    report = evaluate(captions, "rouge")
    print_run(report)
    print_worst(report, 1)
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("x[red].json", "[/red]", "a [bold] dog", "a [dog]"))
