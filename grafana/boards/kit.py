"""The building blocks of dashboards: queries, panels, variables and links to traces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

from grafana_foundation_sdk.builders import bargauge, heatmap, stat, table, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard, prometheus
from grafana_foundation_sdk.models import heatmap as heatmap_model

WIDTH: Final = 24
"""Columns of a dashboard."""

PROMETHEUS: Final = common.DataSourceRef(type_val="prometheus", uid="${prometheus}")

WHO: Final = 'job=~"$job", proofstream_proof_model=~"$model", proofstream_proof_backend=~"$backend"'
"""Selects the series of the proofs that the user has chosen."""

WHERE: Final = 'job=~"$job"'
"""Selects the series of the processes that the user has chosen."""

_LABEL_VALUES: Final = 1
"""Grafana's number for a query of the values of a label."""

Shape = TypeVar("Shape", timeseries.Panel, stat.Panel, bargauge.Panel, table.Panel, heatmap.Panel)
Steps = Sequence[tuple[float | None, str]]

BY_PROOF: Final = "proofstream_proof_model, proofstream_proof_backend"
PROOF_NAME: Final = "{{proofstream_proof_model}} on {{proofstream_proof_backend}}"

NEUTRAL: Final[Steps] = ((None, "blue"),)
"""Thresholds for every panel without its own. Grafana's default thresholds turn red at 80."""

BAD_ABOVE_ZERO: Final[Steps] = ((None, "green"), (1, "red"))
"""Thresholds for whole numbers."""


def counted(selector: str, by: str = "", over: str = "$__range") -> str:
    """Return PromQL for the increase of counters over a period, as a whole number.

    increase() extrapolates: for a process that proves once and ends, it returns 1.25 proofs. Our counters start at zero
    with their process, and every process is a separate instance, so the difference is exact.
    """
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (max_over_time({selector}[{over}]) - min_over_time({selector}[{over}]))"


def quantile(share: float, histogram: str, selector: str, by: str = "", over: str = "$window") -> str:
    """Return PromQL for a quantile of a histogram. The period is long, because proofs are rare."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (increase({histogram}_bucket{{{selector}}}[{over}])))"


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query of a panel.

    Attributes:
        expr: The PromQL expression.
        legend: The name of its series, with ``{{label}}``.
        exemplars: True to show exemplars.
        once: True to query only the end of the time range.
        shape: Grafana's format of the result.
    """

    expr: str
    legend: str = "__auto"
    exemplars: bool = False
    once: bool = False
    shape: prometheus.PromQueryFormat = prometheus.PromQueryFormat.TIME_SERIES

    def target(self, ref_id: str) -> Dataquery:
        """Build Grafana's form of the query."""
        query = Dataquery().datasource(PROMETHEUS).ref_id(ref_id).expr(self.expr).legend_format(self.legend)
        query.exemplar(self.exemplars).editor_mode(prometheus.QueryEditorMode.CODE).format(self.shape)
        return query.instant() if self.once else query.range()


@dataclass(frozen=True, kw_only=True)
class About:
    """The attributes of every panel.

    Attributes:
        title: The title.
        text: What the panel shows and how to use it.
        unit: Grafana's name of the unit.
        width: Columns, of 24.
        height: Rows of the grid.
        steps: Thresholds: the least value of each colour.
        top: The end of the scale.
        link: The target of a click on a value.
    """

    title: str
    text: str
    unit: str
    width: int = 12
    height: int = 8
    steps: Steps = NEUTRAL
    top: float | None = None
    link: build.DashboardLink | None = None


def lines(about: About, *queries: Query, dots: bool = False, stacked: bool = False) -> timeseries.Panel:
    """Build a panel of values over time; ``dots`` for rare values, ``stacked`` for parts of a whole."""
    legend = common_builders.VizLegendOptions().show_legend(True)
    legend = legend.display_mode(common.LegendDisplayMode.TABLE).placement(common.LegendPlacement.BOTTOM)
    panel = _filled(timeseries.Panel(), about, queries).legend(legend.calcs(["lastNotNull", "max"]))
    panel.tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    panel.min(0).line_width(1).fill_opacity(25 if stacked else 8).point_size(6 if dots else 4)
    panel.show_points(common.VisibilityMode.ALWAYS if dots else common.VisibilityMode.AUTO)
    panel.color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC))
    if about.steps is not NEUTRAL:
        dashed = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        panel.thresholds_style(dashed)
    if stacked:
        panel.draw_style(common.GraphDrawStyle.BARS)
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    return panel


def number(about: About, *queries: Query, graph: bool = False) -> stat.Panel:
    """Build a panel of a few large numbers."""
    panel = _filled(stat.Panel(), about, queries).reduce_options(_last())
    panel.graph_mode(common.BigValueGraphMode.AREA if graph else common.BigValueGraphMode.NONE)
    return panel.color_mode(common.BigValueColorMode.VALUE).text_mode(common.BigValueTextMode.AUTO).no_value("none")


def bars(about: About, *queries: Query) -> bargauge.Panel:
    """Build a panel with one bar for each series."""
    panel = _filled(bargauge.Panel(), about, queries).reduce_options(_last()).min(0).no_value("none")
    panel.display_mode(common.BarGaugeDisplayMode.GRADIENT).value_mode(common.BarGaugeValueMode.COLOR)
    return panel.orientation(common.VizOrientation.HORIZONTAL)


def rows(about: About, *columns: tuple[str, str, Query], labels: dict[str, str]) -> table.Panel:
    """Build a table. Each column is a name, a unit and a query; ``labels`` maps the shown labels to their headings."""
    queries = [query for _, _, query in columns]
    panel = _filled(table.Panel(), about, queries).with_transformation(
        dashboard.DataTransformerConfig(id_val="merge", options={})
    )
    # Grafana numbers the values only if the table has several queries.
    found = [f"Value #{ref}" for ref, _ in zip("ABCDEFGH", columns, strict=False)] if len(columns) > 1 else ["Value"]
    names = {value: name for value, (name, _, _) in zip(found, columns, strict=True)}
    options = {"excludeByName": {"Time": True}, "renameByName": {**labels, **names}}
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=options))
    for name, unit, _ in columns:
        panel.override_by_name(name, [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    first = next(iter(names.values()))
    return panel.sort_by([common_builders.TableSortByFieldState().display_name(first).desc(True)])


def cells(about: About, query: Query) -> heatmap.Panel:
    """Build a heat map of a histogram over time."""
    panel = _filled(heatmap.Panel(), about, [query]).calculate(False)
    panel.y_axis(heatmap.YAxisConfig().unit(about.unit).axis_placement(common.AxisPlacement.LEFT))
    panel.color(heatmap.HeatmapColorOptions().scheme("Oranges").mode(heatmap_model.HeatmapColorMode.SCHEME).steps(64))
    return panel.filter_values(heatmap.FilterValueRange().le(1e-9)).cell_gap(1).exemplars_color("rgba(0,120,255,0.9)")


def traces(title: str, operation: str) -> build.DashboardLink:
    """Build a link that searches Jaeger for traces with a span named `operation` in the time range."""
    query = {"refId": "A", "queryType": "search", "service": "${job}", "operation": operation, "limit": 50}
    pane = {
        "datasource": "${jaeger}",
        "queries": [{**query, "datasource": {"type": "jaeger", "uid": "${jaeger}"}}],
        "range": {"from": "${__from}", "to": "${__to}"},
    }
    panes = quote(json.dumps({"proofs": pane}, separators=(",", ":")), safe="${}")
    link = build.DashboardLink(title).type(dashboard.DashboardLinkType.LINK).target_blank(True)
    return link.url(f"/explore?schemaVersion=1&panes={panes}")


def choice(name: str, label: str, text: str, query: str) -> build.QueryVariable:
    """Build a menu of a label's values that allows several choices; all are chosen at first."""
    everything = dashboard.VariableOption(selected=True, text="All", value="$__all")
    return _menu(name, label, text, query).multi(True).include_all(True).all_value(".*").current(everything)


def service() -> build.QueryVariable:
    """Build a menu of services. It allows one choice, because links to traces can name only one service."""
    return _menu("job", "Service", "Service to show", "label_values(proofstream_events_refused_total, job)")


def _menu(name: str, label: str, text: str, query: str) -> build.QueryVariable:
    asked: dict[str, object] = {"qryType": _LABEL_VALUES, "query": query, "refId": name}
    menu = build.QueryVariable(name).label(label).description(text).query(asked).datasource(PROMETHEUS)
    menu.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    return menu.definition(query)


def window() -> build.CustomVariable:
    """Build a menu of periods for quantiles and sums."""
    chosen = dashboard.VariableOption(selected=True, text="1h", value="1h")
    menu = (
        build.CustomVariable("window")
        .label("Window")
        .description("Percentiles and sums at each point cover this period before it")
    )
    return menu.values("15m,1h,6h,24h").current(chosen)


def board(*, uid: str, title: str, text: str, variables: Sequence[Builder[dashboard.VariableModel]]) -> build.Dashboard:
    """Build an empty dashboard with the settings, links and variables that all dashboards share."""
    others = build.DashboardLink("Other proofstream dashboards").type(dashboard.DashboardLinkType.DASHBOARDS)
    made = build.Dashboard(title).uid(uid).description(text).tags(["proofstream"]).readonly().timezone("browser")
    made.time("now-6h", "now").refresh("30s").tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    made.link(others.tags(["proofstream"]).include_vars(True).keep_time(True))
    made.with_variable(build.DatasourceVariable("prometheus").label("Metrics").type("prometheus"))
    made.with_variable(build.DatasourceVariable("jaeger").label("Traces").type("jaeger"))
    made.with_variable(service())
    for variable in variables:
        made.with_variable(variable)
    return made


def row(made: build.Dashboard, title: str, *panels: Any) -> None:
    """Add a row of panels under a heading."""
    made.with_row(build.Row(title))
    for panel in panels:
        made.with_panel(panel)


def proofs(text: str, selector: str = WHO) -> str:
    """Return PromQL for a series of running proofs, without those that have ended.

    Our own pipeline marks the end of a series. With a provider that the caller passed in, its last value stays for five
    minutes.
    """
    on = "job, instance, proofstream_proof_model, proofstream_proof_backend"
    return f"{text}{{{selector}}} and on ({on}) proofstream_proofs_running > 0"


def _last() -> common_builders.ReduceDataOptions:
    return common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False)


def _filled(panel: Shape, about: About, queries: Sequence[Query]) -> Shape:
    panel.title(about.title).description(about.text).datasource(PROMETHEUS).unit(about.unit)
    panel.span(about.width).height(about.height)
    for ref_id, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(query.target(ref_id))
    steps = [dashboard.Threshold(value=value, color=color) for value, color in about.steps]
    panel.thresholds(build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
    panel.color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
    if about.top is not None:
        panel.max(about.top)
    if about.link is not None:
        panel.data_links([about.link])
    return panel
