// The slide and the maps over it, by OpenSeadragon.
import OpenSeadragon from "openseadragon";
import { kKinds, type Kind, type Page } from "./facts";
import { layerUrl } from "./layers";

/** Where the view is, for the scale and for what is at its centre. */
export interface View {
  pixel: number; // pixels of level 0 to one of the screen
  centre: [x: number, y: number]; // at level 0
}

export class SlideViewer {
  private readonly viewer: OpenSeadragon.Viewer;
  private readonly unit: number; // level 0 pixels in OpenSeadragon's unit, the slide's width
  private readonly layers = new Map<Kind, OpenSeadragon.TiledImage>();
  private readonly mark = document.createElement("div");
  private kind: Kind;
  private opacity: number;

  constructor(
    private readonly page: Page,
    element: HTMLElement,
    onView: (view: View) => void,
    onPoint: (point: [number, number] | null) => void,
    onFailure: (message: string) => void,
  ) {
    const { pyramid } = page.facts,
      calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.kind = page.facts.show;
    this.opacity = page.facts.opacity;
    this.unit = pyramid.width * pyramid.downsample;
    // OpenSeadragon would add a style to the page, which the page's policy refuses; outlines are the page's own.
    document.getElementById("style")?.setAttribute("data-openseadragon-mobile-css", "");
    const source = new OpenSeadragon.TileSource({
      width: pyramid.width,
      height: pyramid.height,
      tileSize: pyramid.tile,
      tileOverlap: 0,
      minLevel: Math.min(8, pyramid.finest), // smaller ones are one picture of a few pixels
      maxLevel: pyramid.finest,
    });
    source.getTileUrl = (level, x, y) => `slide_files/${level}/${x}_${y}.webp`;
    this.viewer = OpenSeadragon({
      element,
      drawer: "canvas", // others read pixels back, which browsers refuse for files of a disk
      tileSources: [source],
      showNavigationControl: false,
      showNavigator: true,
      navigatorPosition: "TOP_RIGHT",
      navigatorAutoFade: false,
      maxZoomPixelRatio: 4,
      minZoomImageRatio: 0.9,
      visibilityRatio: 0.3,
      animationTime: calm ? 0 : 0.5,
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true },
    });
    const canvas = this.viewer.canvas as HTMLElement;
    canvas.setAttribute("role", "application");
    canvas.setAttribute(
      "aria-label",
      "The slide. Arrows move it, + and − zoom, 0 shows the whole; 1, 2, 3 choose a map.",
    );
    this.mark.className = "mark";
    this.mark.setAttribute("aria-hidden", "true");

    this.viewer.addHandler("open", () => {
      this.viewer.navigator?.element.setAttribute("aria-hidden", "true");
      this.viewer.navigator?.element.querySelectorAll("[tabindex]").forEach((each) => each.removeAttribute("tabindex"));
      for (const kind of kKinds) void this.addLayer(kind).catch((error: Error) => onFailure(error.message));
    });
    this.viewer.addHandler("tile-load-failed", (event) => {
      const { tile } = event as unknown as { tile: { getUrl(): string } };
      onFailure(
        `A picture of the slide is missing: ${tile.getUrl()}. Keep index.html in its folder, beside slide_files.`,
      );
    });
    // It would turn and mirror the slide on R and F.
    this.viewer.addHandler("canvas-key", (event) => {
      if (/^[rf]$/i.test((event.originalEvent as KeyboardEvent).key)) event.preventDefaultAction = true;
    });
    const tell = () => onView(this.view());
    for (const name of ["open", "animation", "resize", "update-viewport"] as const) this.viewer.addHandler(name, tell);
    canvas.addEventListener("pointermove", (event) => onPoint(this.pointOf(event)));
    canvas.addEventListener("pointerdown", (event) => onPoint(this.pointOf(event)));
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && onPoint(null));
  }

  private async addLayer(kind: Kind) {
    const url = await layerUrl(this.page, kind),
      { x, y, cell, columns } = this.page.facts.grid;
    this.viewer.addSimpleImage({
      url,
      x: x / this.unit,
      y: y / this.unit,
      width: (cell * columns) / this.unit,
      opacity: kind === this.kind ? this.opacity : 0,
      success: (event: Event | object) => {
        this.layers.set(kind, (event as { item: OpenSeadragon.TiledImage }).item);
        this.show(this.kind, this.opacity);
      },
    } as unknown as Parameters<OpenSeadragon.Viewer["addSimpleImage"]>[0]);
  }

  private pointOf(event: PointerEvent): [number, number] {
    const { left, top } = this.viewer.canvas.getBoundingClientRect(),
      { x, y } = this.viewer.viewport.pointFromPixel(
        new OpenSeadragon.Point(event.clientX - left, event.clientY - top),
      );
    return [x * this.unit, y * this.unit];
  }

  private view(): View {
    const { viewport } = this.viewer,
      { x, y } = viewport.getCenter(true);
    return {
      pixel: this.unit / (viewport.getZoom(true) * viewport.getContainerSize().x),
      centre: [x * this.unit, y * this.unit],
    };
  }

  /** Shows one of the maps; opacity 0 … 1. */
  show(kind: Kind, opacity: number) {
    this.kind = kind;
    this.opacity = opacity;
    for (const [each, layer] of this.layers) layer.setOpacity(each === kind ? opacity : 0);
  }

  /** Zooms to a tile and frames it. */
  goTo(tile: number) {
    const { coords, facts } = this.page,
      side = facts.side / this.unit,
      x = coords[2 * tile] / this.unit,
      y = coords[2 * tile + 1] / this.unit;
    this.viewer.removeOverlay(this.mark);
    this.viewer.addOverlay({ element: this.mark, location: new OpenSeadragon.Rect(x, y, side, side) });
    this.viewer.viewport.fitBounds(new OpenSeadragon.Rect(x - side, y - side, 3 * side, 3 * side));
  }

  zoom(factor: number) {
    this.viewer.viewport.zoomBy(factor).applyConstraints();
  }
  home() {
    this.viewer.removeOverlay(this.mark);
    this.viewer.viewport.goHome();
  }
  destroy() {
    this.viewer.destroy();
  }
}
