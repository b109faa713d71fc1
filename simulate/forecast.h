/* SPDX-License-Identifier: BSD-3-Clause */
/* What training.c asks of a forecast besides <plait/forecast.h>. */
#ifndef PLAIT_SIMULATE_FORECAST_H
#define PLAIT_SIMULATE_FORECAST_H

#include <plait/forecast.h>

/* Percent of the usual speed at which the slowest rank computes. */
uint32_t plait_forecast_slowest(const struct plait_forecast *forecast);

#endif
