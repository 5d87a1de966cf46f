// The only place that loads ECharts, so that it stays a chunk of its own.
import { BarChart, LineChart, ScatterChart } from "echarts/charts";
import { AxisPointerComponent, GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { connect, format, getInstanceByDom, init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

use([
  BarChart,
  LineChart,
  ScatterChart,
  AxisPointerComponent,
  GridComponent,
  MarkLineComponent,
  TooltipComponent,
  CanvasRenderer,
]);

export { connect, getInstanceByDom, init };
export const escapeHtml = format.encodeHTML;
