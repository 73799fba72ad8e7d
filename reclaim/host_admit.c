// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * host_admit.c - whether one guest more fits.
 *
 * DOC: admission
 *
 * A protection is a promise, and a promise is kept on the day when everybody calls it in. So it
 * is held against the sum of all promises, not against what is used or free now: that there is
 * room today says nothing. What is resident now only says how much would have to be reclaimed if
 * the guest came, which takes time and may cost refaults, but never is a reason to refuse.
 */
#include <errno.h>
#include "host.h"

static enum host_verdict judge(const struct host_share *guest, const struct host_admission *a)
{
	if (host_check_share(guest) == -EINVAL)
		return HOST_BAD_WEIGHT;
	if (host_check_share(guest) || !guest->size)
		return HOST_BAD_SIZE;
	if (a->low > a->ceiling)
		return HOST_LOW_ABOVE_LIMIT;
	if (a->low > a->budget)
		return HOST_LOW_ABOVE_BUDGET;
	return a->low > a->available ? HOST_LOW_UNAVAILABLE : HOST_FITS;
}

static uint32_t idle_above_promise(const struct host_share *s)
{
	uint32_t used = MIN(s->resident, host_ceiling(s));

	return MIN(s->idle, used - MIN(host_promise(s), used));
}

int host_admit(const struct host_share *shares, uint32_t nr, const struct host_policy *policy,
	       const struct host_share *guest, struct host_admission *ret)
{
	struct host_admission a = {
		.budget = policy->budget,
		.low = guest->low,
		.ceiling = host_ceiling(guest),
	};
	uint64_t resident = MIN(guest->resident, host_ceiling(guest));
	uint64_t idle = idle_above_promise(guest);

	for (uint32_t i = 0; i < nr; i++) {
		a.protected += host_promise(&shares[i]);
		resident += MIN(shares[i].resident, host_ceiling(&shares[i]));
		idle += idle_above_promise(&shares[i]);
	}
	a.available = a.budget - MIN(a.protected, a.budget);
	if (a.budget == HOST_NO_BUDGET)
		a.available = HOST_NO_BUDGET;
	a.over = resident - MIN(a.budget, resident);
	a.over_idle = MIN(idle, a.over);
	a.verdict = judge(guest, &a);
	if (a.verdict == HOST_LOW_ABOVE_LIMIT)
		a.missing = a.low - a.ceiling;
	else
		a.missing = a.low - MIN(a.available, a.low);
	if (ret)
		*ret = a;
	if (a.verdict == HOST_FITS)
		return 0;
	return a.verdict >= HOST_LOW_ABOVE_BUDGET ? -ENOSPC : -EINVAL;
}
