"""The dashboard's pages in headless Chromium: clicked, typed into, looked at on a phone, and by keyboard alone.

The database is made of export lines, so that it can hold what the tuner never writes: names that try to be HTML.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

DASHBOARD, DB = os.environ["ATALLA_DASHBOARD_TOOL"], os.environ["ATALLA_DB_TOOL"]
HOSTILE = "<img src=x onerror=\"document.title='taken'\">&amp;'); alert(1)//"
DAY = 86_400_000
START = 1_767_225_600_000  # 2026-01-01


def counters(cycles):
    return {"cycles": cycles, "packets": cycles // 2, "dram_beats": 100, "array_rows": 64,
            "stalls": {"data": cycles // 4, "dma": cycles - cycles // 2 - cycles // 4, "unit": 0}}


def export(kernels):
    """kernels: (op, workload, machine, [(compiler, start, [cycles or reason])]); the fastest of a run is verified."""
    lines = [{"format": "atalla-tune database", "kind": "header", "version": 1},
             {"kind": "machine", "fingerprint": "m1", "name": "ax01"},
             {"kind": "machine", "fingerprint": "m2", "name": "<b>m2</b>"}]
    for number, (op, workload, machine, runs) in enumerate(kernels):
        for compiler, start, trials in runs:
            key = {"op": op, "workload": workload, "machine": machine, "compiler": compiler}
            run = f"{number:08x}{start % 0xffffffff:08x}"
            lines.append(key | {"kind": "run", "id": run, "host": "box", "strategy": "draft", "seed": 1, "bound_cycles": 800,
                                "started": start, "ended": start + 100, "outcome": "finished"})
            best = min(trial for trial in trials if isinstance(trial, int))
            for index, trial in enumerate(trials):
                ok = isinstance(trial, int)
                lines.append(key | {"kind": "trial", "point": {"tile": index, "depth": start // DAY % 1000}, "run": run,
                                    "status": "ok" if ok else "refused", "cycles": trial if ok else 0,
                                    "reason": "" if ok else trial, "counters": counters(trial) if ok else None,
                                    "seconds_lower": 0.01, "seconds_simulate": 0.02, "differs": "", "when": start + index,
                                    "verification": "verified" if trial == best else "unverified"})
    return "".join(json.dumps(line) + "\n" for line in lines)


KERNELS = [
    ("gemm", {"m": 512, "n": 512, "k": 512}, "m1", [("c1", START, [2000, 1500, 1000]), ("c2", START + DAY, [1001, 3000, "rule 51 <i>"])]),
    ("gemm", {"m": 512, "n": 512, "k": 512}, "m2", [("c1", START, [900])]),
    ("gemm", {"m": 64, "n": 64, "k": 64}, "m1", [("c1", START, [1600]), ("c2", START + DAY, [1599])]),
    ("softmax", {"rows": 32}, "m1", [("c1", START, [5000]), ("c2", START + DAY, [5000])]),
    (HOSTILE, {"note": HOSTILE}, "m1", [("c1", START, [7000])]),
]


def benchmark(seconds, cycles):
    return json.dumps({"context": {"date": "2026-01-02", "host_name": "box"}, "benchmarks": [
        {"name": HOSTILE, "run_name": HOSTILE, "run_type": "iteration", "real_time": value, "cpu_time": value,
         "time_unit": "ms", "cycles": cycles} for value in seconds]})


@unittest.skipUnless(webdriver and shutil.which("chromium") and shutil.which("chromedriver"),
                     "needs chromium, chromium-driver and selenium; ./atalla test installs them")
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        base = pathlib.Path(cls.folder.name)
        (base / "x.jsonl").write_text(export(KERNELS))
        for name, seconds, cycles in (("oldest", [1.0], 120), ("old", [1.0, 1.01, 1.02, 1.03, 1.04], 100), ("new", [1.5, 1.51, 1.52, 1.53, 1.54], 101)):
            (base / name).mkdir()
            (base / name / "simulator.json").write_text(benchmark(seconds, cycles))
        subprocess.run([DB, "--db", base / "x.db", "merge", base / "x.jsonl"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([DASHBOARD, "-o", base / "site", "--db", base / "x.db", "--benchmarks", base / "oldest", base / "old", base / "new", "--quiet"], check=True)
        cls.site = base / "site"
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={base / 'profile'}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        cls.browser = webdriver.Chrome(options=options, service=service)
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.browser.get_log("browser")

    def tearDown(self):
        # Nothing may be blocked, missing or thrown, and no name may have become a part of the page.
        self.assertEqual([entry["message"] for entry in self.browser.get_log("browser")], [])
        self.assertNotEqual(self.browser.title, "taken")
        self.assertEqual(self.find("main img, main i, main b"), [])

    def open(self, page):
        self.browser.get("about:blank")
        self.browser.get(f"file://{self.site}/{page}")
        self.drawn()

    def drawn(self):
        WebDriverWait(self.browser, 30).until(lambda b: b.execute_script("return document.documentElement.dataset.drawn"))

    def find(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def one(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def rows(self, caption="All kernels"):
        region = self.one(f"[aria-label='{caption}']")
        return [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in region.find_elements(By.CSS_SELECTOR, "tbody tr")]

    def heading(self, name):
        return next(button for button in self.find("thead button") if button.text == name)

    def click(self, element):
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def test_kernels_are_listed_filtered_and_sorted(self):
        self.open("index.html")
        self.assertEqual(len(self.rows()), 5)
        self.assertEqual([row[3] for row in self.rows()], ["7,000", "5,000", "1,599", "1,001", "900"])
        self.click(self.heading("Cycles"))
        self.assertEqual([row[3] for row in self.rows()], ["900", "1,001", "1,599", "5,000", "7,000"])
        self.assertEqual(self.heading("Cycles").find_element(By.XPATH, "..").get_attribute("aria-sort"), "ascending")
        self.one("#find").send_keys("512 ax01")
        self.assertEqual([row[3] for row in self.rows()], ["1,001"])
        self.assertEqual(self.one("[role=status]").text, "1 of 5 kernels")
        self.one("#find").clear()
        self.one("#find").send_keys("no such kernel")
        self.assertEqual(self.rows(), [["No kernel matches."]])
        self.one("#find").clear()
        self.one("#find").send_keys(" ")
        Select(self.one("#operator")).select_by_visible_text("softmax")
        self.assertEqual([row[3] for row in self.rows()], ["5,000"])
        Select(self.one("#operator")).select_by_visible_text("all")
        Select(self.one("#machine")).select_by_visible_text("<b>m2</b>")
        self.assertEqual([row[3] for row in self.rows()], ["900"])

    def test_a_filter_is_part_of_the_address(self):
        self.open("index.html")
        Select(self.one("#machine")).select_by_visible_text("ax01")
        self.click(self.one("#changed"))
        self.click(self.heading("Cycles"))
        expected = self.rows()
        self.assertEqual([row[3] for row in expected], ["1,001", "1,599"])
        self.open(self.browser.current_url.rsplit("/", 1)[1])
        self.assertEqual(self.rows(), expected)

    def test_a_difference_of_one_cycle_is_shown(self):
        self.open("index.html")
        changes = {row[3]: row[5] for row in self.rows()}
        self.assertIn("▲ +1", changes["1,001"])
        self.assertIn("▼ −1", changes["1,599"])
        self.assertEqual(changes["5,000"], "equal")
        self.assertEqual(changes["900"], "first run")
        self.click(self.find(".facts a")[0])
        self.drawn()
        self.assertEqual(self.one("h1").text, "Changes")
        self.assertIn("1 kernel is slower", self.one(".verdict").text)
        self.assertEqual(self.rows("Kernels that are slower")[0][4:7], ["1,000", "1,001", "compiler c1 → c2"])
        self.assertEqual(self.rows("Kernels that are faster")[0][4:6], ["1,600", "1,599"])

    def test_benchmarks_are_judged(self):
        self.open("changes.html")
        by_metric = {row[1]: row for row in self.rows("Benchmarks against their run before")}
        self.assertEqual(by_metric["cycles"][2:5], ["▲ slower", "100", "101"])
        self.assertEqual(by_metric["time, host"][2], "▲ slower")
        self.assertEqual(by_metric["time, host"][6], "0.0079")
        self.assertEqual(by_metric["cycles"][0], HOSTILE)

    def test_benchmarks_have_a_history(self):
        self.open("changes.html")
        by_metric = {row[1]: row for row in self.rows("Benchmarks over all runs")}
        self.assertEqual(by_metric["cycles"][3:6], ["120", "101", "-15.83 %"])
        self.assertIn("3 runs, 120 first, 101 last", self.one("[aria-label='Benchmarks over all runs']").get_attribute("textContent"))
        self.assertEqual(by_metric["time, host"][5], "52.00 %")

    def test_a_kernel_has_its_own_page(self):
        self.open("index.html")
        self.click(next(link for link in self.find("tbody a") if link.text == "gemm m=512, n=512, k=512"
                        or link.text == "gemm k=512, m=512, n=512"))
        self.drawn()
        self.assertIn("gemm", self.one("h1").text)
        headings = [heading.text for heading in self.find("h2")]
        for expected in ("Result", "Where the cycles went", "Schedule", "Trials over time", "Fastest trials", "Program"):
            self.assertIn(expected, headings)
        parts = {row[0]: row[2] for row in self.rows("Cycles by cause")}
        self.assertEqual(sum(int(cycles.replace(",", "")) for cycles in parts.values()), int(self.find(".details dd")[0].text.replace(",", "")))

    def test_the_versions_of_a_kernel_can_be_chosen(self):
        self.open("index.html")
        self.one("#find").send_keys("512 ax01")
        self.click(self.find("tbody a")[0])
        self.drawn()
        self.assertEqual(self.find(".details dd")[0].text, "1,001")
        self.assertEqual(self.rows("Failures by reason")[0][2], "rule 51 <i>")
        Select(self.one("#compiler")).select_by_visible_text("c1")
        self.assertEqual(self.find(".details dd")[0].text, "1,000")
        # Three charts, each with a canvas that was drawn into and a sentence that says the same.
        WebDriverWait(self.browser, 30).until(lambda _: len(self.find("figure canvas")) == 3)
        captions = [caption.text for caption in self.find("figcaption")]
        self.assertIn("Cycles of 3 trials in the order they were made; the best took 1,000.", captions)
        self.assertIn("The best so far is within 10 % of the best found after trial 3, within 3 % after 3, and the best itself is trial 3.", captions)
        for canvas in self.find("figure canvas"):
            self.assertTrue(self.browser.execute_script(
                "const c = arguments[0]; return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(value => value)", canvas))

    def test_an_unknown_kernel_says_so(self):
        for address in ("kernel.html", "kernel.html#id=0123456789abcdef", "kernel.html#id=../../x", "kernel.html#id=<script>"):
            self.open(address)
            self.assertEqual(self.one(".notice").text, "There is no such kernel in this dashboard.")

    def test_hostile_names_stay_text(self):
        self.open("index.html")
        self.one("#find").send_keys("onerror")
        link = self.one("tbody a")
        self.assertIn(HOSTILE, link.text)
        self.click(link)
        self.drawn()
        self.assertIn(HOSTILE, self.one("h1").text)
        self.assertIn(HOSTILE, self.browser.title)

    def test_machines_stand_side_by_side(self):
        self.open("machines.html")
        row = next(row for row in self.rows("Cycles on each machine") if "512" in row[0])
        self.assertIn("1,001", row[1])
        self.assertIn("900", row[2])
        self.click(next(link for link in self.find("tbody a") if link.text == "900"))
        self.drawn()
        self.assertIn("on <b>m2</b>", self.one("h1").text)

    def test_models_show_their_layers(self):
        self.open("models.html")
        headings = [heading.text for heading in self.find("h3")]
        self.assertIn("bert-base-uncased", headings)
        self.click(self.find("summary")[0])
        self.assertTrue(self.find("details[open] tbody tr"))

    def test_every_page_works_by_keyboard(self):
        self.open("index.html")
        self.press(Keys.TAB)
        self.assertEqual(self.focused().text, "Skip to the content")
        self.press(Keys.ENTER)
        self.assertEqual(self.focused().get_attribute("id"), "main")
        seen = []
        for _ in range(40):
            self.press(Keys.TAB)
            seen.append(self.focused())
            if seen[-1].text == "Cycles":
                break
        self.press(Keys.SPACE)
        self.assertEqual(self.rows()[0][3], "900")
        self.assertTrue({"find", "operator", "machine", "changed"} <= {element.get_attribute("id") for element in seen})

    def focused(self):
        return self.browser.switch_to.active_element

    def press(self, key):
        self.focused().send_keys(key)

    def test_a_screen_reader_finds_its_way(self):
        for page in ("index.html", "models.html", "machines.html", "changes.html"):
            self.open(page)
            self.assertEqual(self.browser.execute_script("return document.documentElement.lang"), "en")
            self.assertEqual(len(self.find("h1")), 1)
            self.assertEqual(len(self.find("main")), 1)
            self.assertEqual(len(self.find("nav [aria-current=page]")), 1)
            levels = [int(heading.tag_name[1]) for heading in self.find("h1, h2, h3")]
            self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels)
            for control in self.find("input, select"):
                self.assertTrue(control.accessible_name.strip(), control.get_attribute("outerHTML"))
            for table in self.find("table"):
                self.assertTrue(table.find_element(By.TAG_NAME, "caption").get_attribute("textContent"))
                self.assertTrue(all(head.get_attribute("scope") == "col" for head in table.find_elements(By.CSS_SELECTOR, "thead th")))

    def test_no_page_is_wider_than_a_phone(self):
        self.open("index.html")
        kernel = self.find("tbody a")[0].get_attribute("href").rsplit("/", 1)[1]
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True})
        for page in ("index.html", kernel, "models.html", "machines.html", "changes.html"):
            self.open(page)
            self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 360, page)

    def test_light_dark_and_as_the_system_has_it(self):
        def ground():
            return self.browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor")

        for preference, expected in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": preference}]})
            self.open("index.html")
            self.assertEqual(ground(), expected)
            self.assertGreaterEqual(min(self.contrasts()), 4.5)
        Select(self.one("#theme")).select_by_visible_text("light")
        self.assertEqual(ground(), "rgb(255, 255, 255)")
        self.open("changes.html")
        self.assertEqual(ground(), "rgb(255, 255, 255)")
        self.assertEqual(self.one("#theme").get_attribute("value"), "light")
        Select(self.one("#theme")).select_by_visible_text("auto")
        self.assertEqual(ground(), "rgb(20, 23, 27)")

    def contrasts(self):
        """WCAG's contrast of the text colours with the two grounds that text stands on."""
        values = self.browser.execute_script("""
            const style = getComputedStyle(document.documentElement);
            return Object.fromEntries(["ground", "raised", "ink", "muted", "accent", "good", "bad"].map(name => [name, style.getPropertyValue("--" + name).trim()]));""")

        def luminance(colour):
            channels = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
            red, green, blue = (value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue

        for text in ("ink", "muted", "accent", "good", "bad"):
            for ground in ("ground", "raised"):
                light, dark = sorted((luminance(values[text]), luminance(values[ground])), reverse=True)
                yield (light + 0.05) / (dark + 0.05)


if __name__ == "__main__":
    unittest.main()
