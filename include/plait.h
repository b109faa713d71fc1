/* SPDX-License-Identifier: BSD-3-Clause */
/* All of Plait's public headers. Each is the manual of one noun; a program may include only those that it needs. */
#ifndef PLAIT_H
#define PLAIT_H

#include <plait/coll.h>
#include <plait/comm.h>
#include <plait/config.h>
#include <plait/elastic.h>
#include <plait/forecast.h>
#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/launch.h>
#include <plait/log.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/optim.h>
#include <plait/plan.h>
#include <plait/request.h>
#include <plait/simulate.h>
#include <plait/status.h>
#include <plait/stream.h>
#include <plait/topology.h>
#include <plait/version.h>

#endif
