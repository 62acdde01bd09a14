"""What `atalla profile` writes, read by others: Perfetto's own schema for the trace, a browser for the page."""
import json
import os
import pathlib
import subprocess

import pytest

import browser

TOOL = os.environ["ATALLA_PROFILE_TOOL"]
PROGRAM = pathlib.Path(__file__).with_name("profiled.s")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The profile of a small program: its JSON, and the folder with page, trace and retire log."""
    folder = tmp_path_factory.mktemp("profile")
    done = subprocess.run([TOOL, PROGRAM, "--json", "--html", folder / "page.html", "--trace", folder / "trace.pftrace",
                           "--retire-log", folder / "retired"], capture_output=True, text=True, check=True)
    return folder, json.loads(done.stdout)


@pytest.fixture(scope="module")
def trace(files):
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = schema.Trace()
    trace.ParseFromString((files[0] / "trace.pftrace").read_bytes())
    return schema, trace


def slices_of(schema, trace):
    """Each track's name with its slices as (begin, end, name, annotations)."""
    names, annotation_names, tracks, open_slices, slices = {}, {}, {}, {}, {}
    for packet in trace.packet:
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            annotation_names[entry.iid] = entry.name
        if packet.HasField("track_descriptor") and packet.track_descriptor.parent_uuid:
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
            slices[packet.track_descriptor.name] = []
        if packet.HasField("track_event"):
            event, track = packet.track_event, tracks[packet.track_event.track_uuid]
            if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
                assert track not in open_slices, "slices of a track must not overlap"
                notes = {annotation_names[note.name_iid]: note.string_value or note.uint_value for note in event.debug_annotations}
                open_slices[track] = (packet.timestamp, names[event.name_iid], notes)
            else:
                begin, name, notes = open_slices.pop(track)
                assert packet.timestamp >= begin
                slices[track].append((begin // 1000, packet.timestamp // 1000, name, notes))
    assert not open_slices
    return slices


def test_trace_has_a_track_for_every_part(trace):
    slices = slices_of(*trace)
    expected = ["issue", "EX1", "EX2", "EX3", "EX4", "EX5", "move to scalar", "ALU", "MUL", "EXP", "reduction", "array"]
    expected += [f"{name} {pad}{what}" for name, what in (("VLSU", ""), ("pad", " read"), ("pad", " write"), ("DMA", "")) for pad in range(4)]
    expected += [f"DRAM bank {bank}" for bank in range(8)]
    assert list(slices) == expected


def test_slices_are_named_by_instruction_with_their_source(trace):
    slices = slices_of(*trace)
    rows = [row for row in slices["array"] if row[2].startswith("gemm.vv")]
    assert len(rows) == 4 * 8
    assert {row[2] for row in rows} == {"gemm.vv v4, v2, v0, m0"}
    assert {row[3]["source"] for row in rows} == {"rows"}
    assert all(row[1] - row[0] == 1 for row in rows)
    assert [entry[2] for entry in slices["DMA 0"]] == ["scpad.ld x1, x2, x3"]
    assert {entry[2] for entry in slices["pad 0 write"]} == {"scpad.ld x1, x2, x3"}
    assert {entry[2] for entry in slices["pad 1 write"]} == {"vreg.st v5, x0, x10, 31, 1"}
    assert any(entry[2] == "read for DMA 0" for bank in range(8) for entry in slices[f"DRAM bank {bank}"])


def test_trace_adds_up_to_the_counters(files, trace):
    counters = files[1]["counters"]
    issue = slices_of(*trace)["issue"]
    waits = {}
    packets = 0
    for begin, end, name, notes in issue:
        if name in counters["stalls"]:
            waits[name] = waits.get(name, 0) + end - begin
        else:
            packets += 1
    assert packets == counters["packets"]
    assert waits == {name: cycles for name, cycles in counters["stalls"].items() if cycles}
    assert issue[0][0] == 0 and issue[-1][1] == counters["cycles"]


def test_retire_log_has_a_line_for_each_operation(files):
    lines = (files[0] / "retired").read_text().splitlines()
    assert lines[0] == "# atalla retire log 1: packet slot issue done pc target value operation"
    assert len(lines) - 1 == files[1]["counters"]["operations"]
    fields = [line.split(" ", 7) for line in lines[1:]]
    assert all(int(issue) <= int(done) for _, _, issue, done, *_ in fields)
    assert [int(field[2]) for field in fields] == sorted(int(field[2]) for field in fields)


def test_page_works_in_a_browser(files):
    if browser.find() is None:
        pytest.skip("there is no Chromium to look at the page with")
    with browser.Browser() as page:
        page.open(files[0] / "page.html")
        assert page.evaluate("document.querySelector('h1').textContent") == "profiled.s on ax01"
        assert page.evaluate("document.querySelectorAll('#hottest tr').length") == 11
        assert page.evaluate("document.querySelectorAll('#roofline svg circle').length") == 1
        assert page.evaluate("document.querySelectorAll('#stalls .row').length") == 1 + len(files[1]["by_func"])
        box = page.evaluate("(({x, y, width, height}) => [x, y, width, height])(document.getElementById('timeline').getBoundingClientRect())")
        shown = lambda: page.evaluate("(({from, to}) => [+from, +to])(document.getElementById('timeline').dataset)")
        cycles = files[1]["counters"]["cycles"]
        assert shown() == [0, cycles]

        middle = (box[0] + 104 + (box[2] - 104) / 2, box[1] + 8)
        for _ in range(12):
            page.mouse("mouseWheel", *middle, deltaX=0, deltaY=-100)
        begin, end = shown()
        assert begin <= cycles / 2 <= end and end - begin < cycles / 10

        page.mouse("mousePressed", *middle, button="left", clickCount=1)
        page.mouse("mouseMoved", middle[0] + 200, middle[1], button="left", buttons=1)
        page.mouse("mouseReleased", middle[0] + 200, middle[1], button="left", clickCount=1)
        assert shown()[0] < begin

        page.evaluate("show(0, 40)")
        page.mouse("mouseMoved", box[0] + 104 + (box[2] - 104) * 20 / 40, box[1] + 8)
        tip = page.evaluate("document.getElementById('tip').style.display + ' ' + document.getElementById('tip').textContent")
        assert tip.startswith("block issue, cycle 0") and "fetch" in tip

        page.evaluate("show(0, Infinity)")
        assert page.problems == [] and page.requests == ["file://" + str(files[0] / "page.html")]
        assert page.colors(box[0] + 104, box[1], box[2] - 104, box[3]) > 50, "the timeline is painted"
