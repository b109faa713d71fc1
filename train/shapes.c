/* SPDX-License-Identifier: BSD-3-Clause */
#include "shapes.h"

#include <math.h>

/* ---- Shapes: how far (u, v) lies outside; negative inside. They fill about the circle of radius 1. ---- */

float shape_box(float u, float v, float half_width, float half_height)
{
    return larger(fabsf(u) - half_width, fabsf(v) - half_height);
}

static float disc(float u, float v)
{
    return distance(u, v) - 0.85F;
}

static float square(float u, float v)
{
    return shape_box(u, v, 0.75F, 0.75F);
}

static float triangle(float u, float v)
{
    return larger(0.866F * fabsf(u) - 0.5F * v - 0.45F, v - 0.55F);
}

static float cross(float u, float v)
{
    return smaller(shape_box(u, v, 0.3F, 0.95F), shape_box(u, v, 0.95F, 0.3F));
}

static float ring(float u, float v)
{
    return fabsf(distance(u, v) - 0.68F) - 0.24F;
}

static float star(float u, float v)
{
    const float corner = 6.2831853F / 5, angle = atan2f(u, v) + 10 * corner;
    const float beside = fabsf(angle - corner * rintf(angle / corner)), r = distance(u, v);

    return 0.59F * r * cosf(beside) + 0.81F * r * sinf(beside) - 0.57F;
}

static float crescent(float u, float v)
{
    return larger(distance(u, v) - 0.9F, 0.72F - distance(u - 0.45F, v));
}

static float half_disc(float u, float v)
{
    return larger(distance(u, v - 0.35F) - 0.95F, v - 0.35F);
}

static float corner(float u, float v)
{
    return larger(shape_box(u, v, 0.8F, 0.8F), -shape_box(u - 0.45F, v - 0.45F, 0.75F, 0.75F));
}

static float gear(float u, float v)
{
    return distance(u, v) - 0.72F - 0.2F * cosf(7 * atan2f(u, v));
}

static float bone(float u, float v)
{
    return smaller(shape_box(u, v, 0.7F, 0.2F), distance(fabsf(u) - 0.65F, v) - 0.35F);
}

static float frame(float u, float v)
{
    return larger(square(u, v), 0.42F - larger(fabsf(u), fabsf(v)));
}

const struct shape shapes[NSHAPE] = {
    { "star", star },         { "ring", ring },     { "cross", cross },         { "triangle", triangle },
    { "crescent", crescent }, { "square", square }, { "disc", disc },           { "corner", corner },
    { "bone", bone },         { "gear", gear },     { "half-disc", half_disc }, { "frame", frame },
};

/* ---- Patterns: 0 or 1, of cells about 1 wide ---- */

int pattern_striped(float u, float v)
{
    (void)v;
    return u - floorf(u) < 0.5F;
}

static int dotted(float u, float v)
{
    return distance(u - floorf(u) - 0.5F, v - floorf(v) - 0.5F) < 0.36F;
}

static int checked(float u, float v)
{
    return ((int)floorf(2 * u) + (int)floorf(2 * v)) & 1;
}

static int waved(float u, float v)
{
    const float w = u + 0.35F * sinf(4 * v);

    return w - floorf(w) < 0.5F;
}

const struct pattern patterns[NPATTERN] = {
    { "striped", pattern_striped }, { "dotted", dotted }, { "checked", checked }, { "waved", waved }
};
