"""Panels: entry with the participant's id, return addresses with the id put back in, and presets that can be edited."""

from pathlib import Path

import pytest

from captious.studio.collect._panels import PRESETS, RaterPanel, fill_in_preset
from captious.studio.collect.study_plan import parse_plan

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from tests.studio.collect.test_rater_pages import browser, filled
from tests.studio.studies import Study

from captious.studio.collect.sessions import get_shared_link, get_study_name

HEADER = 'title = "x"\nkind = "labels"\nimages = "photos"\n[[options]]\nname = "a"\n[[options]]\nname = "b"\n'
# The client-side completion URL of SONA as Northwestern University documents it, with the id put back in.
SONA = "https://u.sona-systems.com/webstudy_credit.aspx?experiment_id=9&credit_token=abc&survey_code={id}"
CONNECT = "https://connect.cloudresearch.com/participant/project/570B52049B/complete"


def read_panel(text):
    return parse_plan(f"{HEADER}[panel]\n{text}\n", Path("study.toml")).panel


def test_a_preset_fills_in_what_the_file_does_not_say():
    sona = read_panel(f'name = "sona"\ncompleted = "{SONA}"')
    assert (sona.parameter, sona.others, sona.title) == ("survey_code", (), "SONA")
    assert read_panel(f'name = "sona"\nparameter = "id"\ncompleted = "{SONA}"').query == "id=%SURVEY_CODE%"
    connect = read_panel(f'name = "connect"\ncompleted = "{CONNECT}"')
    assert (connect.parameter, connect.others) == ("participantId", ("assignmentId", "projectId"))
    assert read_panel('name = "prolific"\nothers = ["SESSION_ID"]\ncompleted = "C"').others == ("SESSION_ID",)
    own = read_panel('name = "Bilendi"\nparameter = "tid"\ncompleted = "https://b.example/end?t={id}"')
    assert (own.title, own.query) == ("Bilendi", "")
    assert own.find_end("completed", {"tid": "a/b c"}) == ("", "https://b.example/end?t=a%2Fb%20c")


def test_the_link_has_what_the_form_of_the_panel_takes(tmp_path):
    text = HEADER + '[panel]\nname = "NAME"\ncompleted = "C"\n'
    plans = {name: parse_plan(text.replace("NAME", name), Path("study.toml")) for name in PRESETS}
    ends = {name: get_shared_link(plan, "https://h").partition("?")[2] for name, plan in plans.items()}
    assert ends == {
        "prolific": "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}",
        "connect": "",
        "sona": "survey_code=%SURVEY_CODE%",
    }


@pytest.mark.parametrize(
    ("panel", "query", "end", "code"),
    [
        (
            fill_in_preset(RaterPanel("sona", completed=SONA)),
            "survey_code=7310",
            "https://u.sona-systems.com/webstudy_credit.aspx?experiment_id=9&amp;credit_token=abc&amp;survey_code=7310",
            "",
        ),
        (fill_in_preset(RaterPanel("connect", completed=CONNECT)), "participantId=P1&assignmentId=A1", CONNECT, ""),
        (fill_in_preset(RaterPanel("connect", completed="CODE1")), "participantId=P1", "", "CODE1"),
        (
            RaterPanel("Bilendi", "tid", ("job",), completed="https://b.example/{job}/end?t={id}"),
            "tid=a%26b%22&job=7",
            "https://b.example/7/end?t=a%26b%22",
            "",
        ),
    ],
)
def test_people_come_with_an_id_and_return_with_it(tmp_path, panel, query, end, code):
    study = Study(tmp_path, "labels", number=1, overlap=2, panel=panel)
    client, door = browser(study), f"/s/{get_study_name(study.plan)}"
    assert client.get(door).status_code == 403
    done = client.post("/task", data=filled(client.get(f"{door}?{query}").text))
    assert done.url.path == "/done" and (f'href="{end}"' in done.text if end else "Return to" not in done.text)
    assert (f">{code}</strong>" in done.text) if code else ("Your code" not in done.text)
    if end:
        assert f"Return to {panel.title}" in done.text
    # On another device, the same id is the same rater.
    assert browser(study).get(f"{door}?{query}").url.path == "/done" and len(study.log.raters()) == 1


@pytest.mark.parametrize("sent", ["%SURVEY_CODE%", "{{%PROLIFIC_PID%}}", ""])
def test_a_placeholder_that_the_panel_did_not_fill_in_is_nobody(tmp_path, sent):
    study = Study(tmp_path, "labels", panel=fill_in_preset(RaterPanel("sona", completed=SONA)))
    page = browser(study).get(f"/s/{get_study_name(study.plan)}", params={"survey_code": sent})
    assert page.status_code == 403 and "Open the study from SONA" in page.text and study.log.raters() == []


def test_an_amendment_keeps_the_ids_and_may_change_the_addresses(tmp_path):
    from captious.errors import InputError
    from captious.studio.collect.amend import list_changes

    old = parse_plan(f'{HEADER}[panel]\nname = "sona"\ncompleted = "{SONA}"\n', Path("study.toml"))
    new = parse_plan(f'{HEADER}[panel]\nname = "sona"\ncompleted = "C1"\n', Path("study.toml"))
    assert [one["key"] for one in list_changes(old, new)] == ["panel.completed"]
    for text in (f'[panel]\nname = "sona"\nparameter = "id"\ncompleted = "{SONA}"\n', '[source]\nname = "open"\n'):
        with pytest.raises(InputError, match="raters are known by"):
            list_changes(old, parse_plan(HEADER + text, Path("study.toml")))
