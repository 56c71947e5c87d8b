/* A drawing context that writes SVG. It has the part of CanvasRenderingContext2D that the pictures
   use; transformations are only moves and uniform scales. */

class SvgContext {
    constructor(width, height) {
        this.size = [width, height];
        this.out = [];
        this.clips = 0;
        this.saved = [];
        this.path = [];
        this.ruler = document.createElement("canvas").getContext("2d");
        Object.assign(this, {fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1,
            font: "11px sans-serif", textAlign: "left", textBaseline: "alphabetic",
            globalAlpha: 1, dash: [], z: 1, x: 0, y: 0, groups: 0});
    }

    text() {
        const [w, h] = this.size;
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h +
            "\" viewBox=\"0 0 " + w + " " + h + "\">\n" + this.out.join("\n") + "\n</svg>\n";
    }

    save() {
        const {fillStyle, strokeStyle, lineWidth, font, textAlign, textBaseline, globalAlpha, dash,
            z, x, y} = this;
        this.saved.push({fillStyle, strokeStyle, lineWidth, font, textAlign, textBaseline,
            globalAlpha, dash, z, x, y, groups: this.groups});
        this.groups = 0;
    }

    restore() {
        for (; this.groups > 0; this.groups--) this.out.push("</g>");
        Object.assign(this, this.saved.pop());
    }

    translate(dx, dy) {
        this.x += dx * this.z;
        this.y += dy * this.z;
    }

    scale(z) {
        this.z *= z;
    }

    /* A point in coordinates of the file. */
    at(x, y) {
        return svgNumber(this.x + x * this.z) + " " + svgNumber(this.y + y * this.z);
    }

    beginPath() {
        this.path = [];
    }

    moveTo(x, y) {
        this.path.push("M" + this.at(x, y));
    }

    lineTo(x, y) {
        this.path.push((this.path.length > 0 ? "L" : "M") + this.at(x, y));
    }

    bezierCurveTo(a, b, c, d, x, y) {
        this.path.push("C" + [this.at(a, b), this.at(c, d), this.at(x, y)].join());
    }

    quadraticCurveTo(a, b, x, y) {
        this.path.push("Q" + this.at(a, b) + "," + this.at(x, y));
    }

    closePath() {
        this.path.push("Z");
    }

    rect(x, y, w, h) {
        this.path.push("M" + this.at(x, y) + "L" + this.at(x + w, y) + "L" +
            this.at(x + w, y + h) + "L" + this.at(x, y + h) + "Z");
    }

    roundRect(x, y, w, h, r) {
        r = Math.min(r, w / 2, h / 2);
        this.moveTo(x + r, y);
        for (const [cornerX, cornerY, endX, endY, lineX, lineY] of [
            [x + w, y, x + w, y + r, x + w - r, y],
            [x + w, y + h, x + w - r, y + h, x + w, y + h - r],
            [x, y + h, x, y + h - r, x + r, y + h], [x, y, x + r, y, x, y + r]]) {
            this.lineTo(lineX, lineY);
            this.quadraticCurveTo(cornerX, cornerY, endX, endY);
        }
        this.closePath();
    }

    /* Only whole circles are drawn. */
    arc(x, y, r) {
        for (const side of [-1, 1]) {
            if (side < 0) this.moveTo(x + r, y);
            const size = svgNumber(r * this.z);
            this.path.push("A" + size + " " + size + " 0 0 1 " + this.at(x + side * r, y));
        }
    }

    clip() {
        const id = "c" + ++this.clips;
        this.out.push("<clipPath id=\"" + id + "\"><path d=\"" + this.path.join("") +
            "\"/></clipPath>", "<g clip-path=\"url(#" + id + ")\">");
        this.groups++;
    }

    fill() {
        this.out.push("<path d=\"" + this.path.join("") + "\"" +
            svgColour("fill", this.fillStyle, this.globalAlpha) + "/>");
    }

    stroke() {
        const dash = this.dash.map((n) => svgNumber(n * this.z)).join(" ");
        this.out.push("<path d=\"" + this.path.join("") + "\" fill=\"none\"" +
            svgColour("stroke", this.strokeStyle, this.globalAlpha) + " stroke-width=\"" +
            svgNumber(this.lineWidth * this.z) + (dash ? "\" stroke-dasharray=\"" + dash : "") +
            "\"/>");
    }

    setLineDash(dash) {
        this.dash = dash;
    }

    fillRect(x, y, w, h) {
        if (!(w > 0) || !(h > 0)) return;
        const [left, top] = this.at(x, y).split(" ");
        this.out.push("<rect x=\"" + left + "\" y=\"" + top + "\" width=\"" +
            svgNumber(w * this.z) + "\" height=\"" + svgNumber(h * this.z) + "\"" +
            svgColour("fill", this.fillStyle, this.globalAlpha) + "/>");
    }

    strokeRect(x, y, w, h) {
        this.beginPath();
        this.rect(x, y, w, h);
        this.stroke();
    }

    measureText(text) {
        this.ruler.font = this.font;
        return this.ruler.measureText(text);
    }

    fillText(text, x, y) {
        const [, weight = "", size, family] =
            /^(?:([0-9]+|bold|italic) )?([0-9.]+)px (.*)$/.exec(this.font);
        const down = {middle: 0.35, top: 0.8, hanging: 0.8}[this.textBaseline] || 0;
        const anchor = {center: "middle", right: "end"}[this.textAlign];
        const [left, top] = this.at(x, y + down * size).split(" ");
        this.out.push("<text x=\"" + left + "\" y=\"" + top + "\" font-size=\"" +
            svgNumber(size * this.z) + "\" font-family=\"" + svgText(family) + "\"" +
            (weight ? " font-weight=\"" + weight + "\"" : "") +
            (anchor ? " text-anchor=\"" + anchor + "\"" : "") +
            svgColour("fill", this.fillStyle, this.globalAlpha) + ">" + svgText(text) +
            "</text>");
    }

    /* Embeds a part of a canvas as PNG. */
    drawImage(from, sx, sy, sw, sh, x, y, w, h) {
        const part = document.createElement("canvas");
        part.width = sw;
        part.height = sh;
        part.getContext("2d").drawImage(from, sx, sy, sw, sh, 0, 0, sw, sh);
        const [left, top] = this.at(x, y).split(" ");
        this.out.push("<image x=\"" + left + "\" y=\"" + top + "\" width=\"" +
            svgNumber(w * this.z) + "\" height=\"" + svgNumber(h * this.z) +
            "\" preserveAspectRatio=\"none\" style=\"image-rendering: pixelated\" href=\"" +
            part.toDataURL() + "\"/>");
    }
}

function svgNumber(value) {
    return String(Math.round(value * 100) / 100);
}

/* Characters that XML forbids become question marks. */
function svgText(text) {
    return text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]/gu, "?")
        .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")
        .replace(/"/g, "&quot;");
}

/* Opacity is an attribute, because not every program that reads SVG knows rgba(). */
function svgColour(name, style, alpha) {
    const [, colour, own] = /^rgba\((.*), *([0-9.]+)\)$/.exec(style) || [];
    const opacity = (own === undefined ? 1 : Number(own)) * alpha;
    return " " + name + "=\"" + (colour ? "rgb(" + colour + ")" : style) + "\"" +
        (opacity < 1 ? " " + name + "-opacity=\"" + svgNumber(opacity) + "\"" : "");
}
