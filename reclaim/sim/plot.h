/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plot.h - the curves of a grid with one workload, as a picture.
 */
#ifndef SIM_PLOT_H
#define SIM_PLOT_H

#include "grid.h"

/** plot_curves() - refaults against the limit, a curve for each policy; @path ends in .png or .svg */
int plot_curves(const struct sim_grid *grid, const char *path, struct ebb_err *err);

#endif
