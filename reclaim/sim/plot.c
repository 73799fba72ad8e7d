// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * plot.c - miss-ratio curves.
 *
 * Across: the limit in percent of the pages touched. Up: refaults in percent of the accesses counted,
 * from 0. Each policy has a colour, a dash and a mark, so that the curves can be told apart in print
 * and by those who do not see all colours (the palette is that of M. Okabe and K. Ito, "Color
 * universal design", 2008). The legend is ordered as the curves end up on the right, top first.
 */
#include <cairo-svg.h>
#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"

#define WIDTH	     900.0
#define HEIGHT	     560.0
#define LEFT	     72.0
#define RIGHT	     150.0
#define TOP	     48.0
#define BOTTOM	     56.0
#define SCALE	     2 /* pixels of a PNG for each unit */
#define FONT	     "DejaVu Sans"
#define TEXT_SIZE    12.0
#define TITLE_SIZE   15.0
#define LEGEND_STEP  19.0
#define MARK_SIZE    3.5
#define LINE	     1.6
#define OWN_LINE     2.8
#define TICKS_WANTED 6

struct point {
	double x, y; /* percent */
};

struct curve {
	const char *name;
	bool is_own; /* ebb's: in bold */
	struct point *points;
	uint32_t style;
};

struct plot {
	cairo_t *cr;
	const struct sim_grid *grid;
	struct curve *curves;
	double x_min, x_max, y_max, y_step;
};

/* --- data ----------------------------------------------------------------------------------- */

static int compare_points(const void *a, const void *b)
{
	const struct point *p = a, *q = b;

	return p->x < q->x ? -1 : p->x > q->x;
}

static double end_of(const struct plot *plot, const struct curve *curve)
{
	return curve->points[plot->grid->nr_limits - 1].y;
}

/* Highest at the right end first; of equal ones, in the order of columns. */
static void sort_curves(const struct plot *plot)
{
	for (uint32_t i = 1; i < plot->grid->nr_columns; i++) {
		struct curve curve = plot->curves[i];
		uint32_t j = i;

		for (; j && end_of(plot, &plot->curves[j - 1]) < end_of(plot, &curve); j--)
			plot->curves[j] = plot->curves[j - 1];
		plot->curves[j] = curve;
	}
}

/* 1, 2 or 5 times a power of ten, so that about TICKS_WANTED steps make @range. */
static double nice_step(double range)
{
	double rough = range / TICKS_WANTED, power = pow(10, floor(log10(rough)));

	if (rough <= power)
		return power;
	if (rough <= 2 * power)
		return 2 * power;
	return rough <= 5 * power ? 5 * power : 10 * power;
}

static void collect(struct plot *plot)
{
	const struct sim_grid *grid = plot->grid;
	const struct sim_source *source = &grid->sources[0];

	plot->x_min = 1e9;
	for (uint32_t c = 0; c < grid->nr_columns; c++) {
		struct curve *curve = &plot->curves[c];

		curve->name = grid->columns[c].name;
		curve->style = c;
		curve->is_own = grid->columns[c].policy == &sim_ebb;
		curve->points = sim_alloc(grid->nr_limits, sizeof(*curve->points));
		for (uint32_t l = 0; l < grid->nr_limits; l++) {
			const struct sim_result *result = grid_result(grid, 0, l, c);
			struct point *p = &curve->points[l];

			p->x = 100.0 * sim_limit_pages(&grid->limits[l], source->footprint) /
			       source->footprint;
			p->y = 100.0 * (double)result->refaults / (double)result->counted;
			plot->x_min = MIN(plot->x_min, p->x);
			plot->x_max = MAX(plot->x_max, p->x);
			plot->y_max = MAX(plot->y_max, p->y);
		}
		qsort(curve->points, grid->nr_limits, sizeof(*curve->points), compare_points);
	}
	sort_curves(plot);
	plot->y_step = nice_step(MAX(plot->y_max, 1e-3));
	plot->y_max = plot->y_step * MAX(1, ceil(plot->y_max / plot->y_step - 1e-9));
	plot->x_min = MAX(0, floor(plot->x_min / 10 - 1e-9) * 10);
	plot->x_max = MAX(plot->x_min + 10, ceil(plot->x_max / 10 - 1e-9) * 10);
}

static double x_of(const struct plot *plot, double percent)
{
	return LEFT +
	       (percent - plot->x_min) / (plot->x_max - plot->x_min) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *plot, double percent)
{
	return HEIGHT - BOTTOM - percent / plot->y_max * (HEIGHT - TOP - BOTTOM);
}

/* --- ink ------------------------------------------------------------------------------------ */

enum anchor {
	ANCHOR_LEFT,
	ANCHOR_MIDDLE,
	ANCHOR_RIGHT,
};

static void text(const struct plot *plot, double x, double y, enum anchor anchor, const char *s)
{
	cairo_text_extents_t extents;

	cairo_text_extents(plot->cr, s, &extents);
	cairo_move_to(plot->cr, x - extents.x_advance * anchor / 2, y);
	cairo_show_text(plot->cr, s);
}

static void line(const struct plot *plot, double x0, double y0, double x1, double y1, double grey)
{
	cairo_set_source_rgb(plot->cr, grey, grey, grey);
	cairo_set_line_width(plot->cr, 1);
	cairo_move_to(plot->cr, x0, y0);
	cairo_line_to(plot->cr, x1, y1);
	cairo_stroke(plot->cr);
}

static void black(const struct plot *plot)
{
	cairo_set_source_rgb(plot->cr, .1, .1, .1);
}

static void draw_axes(const struct plot *plot)
{
	double bottom = y_of(plot, 0);
	char label[32];

	for (uint32_t i = 0; plot->x_min + 10 * i <= plot->x_max + 1e-9; i++) {
		double x = plot->x_min + 10 * i;

		line(plot, x_of(plot, x), bottom, x_of(plot, x), bottom + 5, .3);
		black(plot);
		snprintf(label, sizeof(label), "%.0f", x);
		text(plot, x_of(plot, x), bottom + 20, ANCHOR_MIDDLE, label);
	}
	for (uint32_t i = 0; i * plot->y_step <= plot->y_max + 1e-9; i++) {
		double y = i * plot->y_step;

		line(plot, LEFT, y_of(plot, y), WIDTH - RIGHT, y_of(plot, y), i ? .88 : .3);
		black(plot);
		snprintf(label, sizeof(label), "%.4g", y);
		text(plot, LEFT - 8, y_of(plot, y) + 4, ANCHOR_RIGHT, label);
	}
	line(plot, LEFT, TOP, LEFT, bottom, .3);
}

static void draw_titles(const struct plot *plot)
{
	const struct sim_source *source = &plot->grid->sources[0];
	char title[160];

	black(plot);
	text(plot, LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 14, ANCHOR_MIDDLE,
	     "limit, % of the pages touched");
	cairo_save(plot->cr);
	cairo_translate(plot->cr, 20, TOP + (HEIGHT - TOP - BOTTOM) / 2);
	cairo_rotate(plot->cr, -M_PI / 2);
	text(plot, 0, 0, ANCHOR_MIDDLE, "refaults, % of accesses");
	cairo_restore(plot->cr);
	snprintf(title, sizeof(title),
		 "%s: refaults by limit (%u pages touched, %.3g M accesses counted)", source->name,
		 source->footprint, (double)grid_result(plot->grid, 0, 0, 0)->counted / 1e6);
	cairo_set_font_size(plot->cr, TITLE_SIZE);
	text(plot, LEFT, TOP - 20, ANCHOR_LEFT, title);
	cairo_set_font_size(plot->cr, TEXT_SIZE);
}

static void set_style(const struct plot *plot, uint32_t style)
{
	static const uint8_t colours[][3] = {
		{213, 94, 0},	 {0, 114, 178},	 {0, 0, 0},	{0, 158, 115},
		{204, 121, 167}, {86, 180, 233}, {230, 159, 0}, {120, 120, 120},
	};
	static const double dashes[][2] = {{1, 0}, {7, 3}, {2, 2}};
	const uint8_t *rgb = colours[style % ARRAY_SIZE(colours)];
	uint32_t dash = style / ARRAY_SIZE(colours) % ARRAY_SIZE(dashes);

	cairo_set_source_rgb(plot->cr, rgb[0] / 255.0, rgb[1] / 255.0, rgb[2] / 255.0);
	cairo_set_line_width(plot->cr, LINE);
	cairo_set_dash(plot->cr, dashes[dash], dash ? 2 : 0, 0);
}

static void mark(const struct plot *plot, double x, double y, uint32_t style)
{
	double s = MARK_SIZE;

	cairo_new_path(plot->cr);
	switch (style % 4) {
	case 0:
		cairo_arc(plot->cr, x, y, s, 0, 2 * M_PI);
		break;
	case 1:
		cairo_rectangle(plot->cr, x - s * .9, y - s * .9, s * 1.8, s * 1.8);
		break;
	default: /* a triangle on its base, or on its tip */
		s = style % 4 == 2 ? s : -s;
		cairo_move_to(plot->cr, x, y - s * 1.2);
		cairo_line_to(plot->cr, x + s * 1.1, y + s * .9);
		cairo_line_to(plot->cr, x - s * 1.1, y + s * .9);
		cairo_close_path(plot->cr);
		break;
	}
	cairo_fill(plot->cr);
}

static void draw_curve(const struct plot *plot, const struct curve *curve)
{
	set_style(plot, curve->style);
	if (curve->is_own)
		cairo_set_line_width(plot->cr, OWN_LINE);
	cairo_new_path(plot->cr);
	for (uint32_t l = 0; l < plot->grid->nr_limits; l++)
		cairo_line_to(plot->cr, x_of(plot, curve->points[l].x),
			      y_of(plot, curve->points[l].y));
	cairo_stroke(plot->cr);
	for (uint32_t l = 0; l < plot->grid->nr_limits; l++)
		mark(plot, x_of(plot, curve->points[l].x), y_of(plot, curve->points[l].y),
		     curve->style);
}

static void draw_legend(const struct plot *plot)
{
	double x = WIDTH - RIGHT + 18;

	for (uint32_t c = 0; c < plot->grid->nr_columns; c++) {
		double y = TOP + 8 + c * LEGEND_STEP;

		set_style(plot, plot->curves[c].style);
		cairo_move_to(plot->cr, x, y);
		cairo_line_to(plot->cr, x + 28, y);
		cairo_stroke(plot->cr);
		mark(plot, x + 14, y, plot->curves[c].style);
		black(plot);
		text(plot, x + 36, y + 4, ANCHOR_LEFT, plot->curves[c].name);
	}
}

static void draw(const struct plot *plot)
{
	cairo_set_source_rgb(plot->cr, 1, 1, 1);
	cairo_paint(plot->cr);
	cairo_select_font_face(plot->cr, FONT, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
	cairo_set_font_size(plot->cr, TEXT_SIZE);
	draw_axes(plot);
	draw_titles(plot);
	for (uint32_t c = plot->grid->nr_columns; c--;)
		draw_curve(plot, &plot->curves[c]);
	cairo_set_dash(plot->cr, NULL, 0, 0);
	draw_legend(plot);
}

/* --- files ---------------------------------------------------------------------------------- */

static cairo_surface_t *make_surface(const char *path, bool svg)
{
	cairo_surface_t *surface;

	if (svg)
		return cairo_svg_surface_create(path, WIDTH, HEIGHT);
	surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, SCALE * (int)WIDTH,
					     SCALE * (int)HEIGHT);
	cairo_surface_set_device_scale(surface, SCALE, SCALE);
	return surface;
}

int plot_curves(const struct sim_grid *grid, const char *path, struct ebb_err *err)
{
	bool svg = !strcmp(strrchr(path, '.'), ".svg");
	cairo_surface_t *surface = make_surface(path, svg);
	struct plot plot = {.grid = grid, .cr = cairo_create(surface)};
	cairo_status_t status;

	plot.curves = sim_alloc(grid->nr_columns, sizeof(*plot.curves));
	collect(&plot);
	draw(&plot);
	status = cairo_status(plot.cr);
	if (!status && !svg)
		status = cairo_surface_write_to_png(surface, path);
	cairo_destroy(plot.cr);
	cairo_surface_finish(surface);
	if (!status)
		status = cairo_surface_status(surface);
	cairo_surface_destroy(surface);
	for (uint32_t c = 0; c < grid->nr_columns; c++)
		free(plot.curves[c].points);
	free(plot.curves);
	if (!status)
		return 0;
	return ebb_err_set(err, -EIO, "%s: %s", path, cairo_status_to_string(status));
}
