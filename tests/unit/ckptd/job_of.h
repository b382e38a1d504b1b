/* What a job of this daemon works with, where it is made by hand. */
#ifndef TESTS_UNIT_CKPTD_JOB_OF_H
#define TESTS_UNIT_CKPTD_JOB_OF_H

#define JOB_OF(d)                                                                                                      \
	.jobs = &(d).jobs, .runtime = &(d).runtime, .storage = &(d).storage, .peers = &(d).peers,                      \
	.control = &(d).control

#endif
