// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_run_cmdline.c - QEMU command lines: what is converted, what is handed on untouched, what is
 * refused and whether the refusal names it.
 *
 * ebb-run's sources are not in a library: they are included.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>
#include "vmm/run/strlist.c"
#include "vmm/run/optstr.c"
#include "vmm/run/walk.c"
#include "vmm/run/refuse.c"
#include "vmm/run/backend.c"
#include "vmm/run/cmdline.c"

#define MIB	 (UINT64_C(1) << 20)
#define MAX_ARGS 32

/** split() - words at single spaces; "~" stands for a space in a word */
static int split(char *line, char **argv)
{
	int argc = 0;

	for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
		for (char *p = word; *p; p++)
			*p = *p == '~' ? ' ' : *p;
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	return argc;
}

static int convert(const char *line, struct cmdline *ret, struct ebb_err *err)
{
	char copy[1024], *argv[MAX_ARGS + 1];

	snprintf(copy, sizeof(copy), "qemu-system-x86_64 %s", line);
	return cmdline_convert(split(copy, argv), argv, ret, err);
}

/** assert_converts() - @to lacks the program's name; words are joined by spaces */
static void assert_converts(const char *from, const char *to, uint64_t ram_bytes)
{
	struct ebb_err err = {""};
	struct cmdline c;
	char got[2048] = "";

	print_message("%s\n", from);
	if (convert(from, &c, &err))
		fail_msg("refused: %s", err.msg);
	for (size_t i = 1; i < c.argv.nr; i++) {
		strcat(got, i > 1 ? " " : "");
		strcat(got, c.argv.v[i]);
	}
	assert_string_equal(c.argv.v[0], "qemu-system-x86_64");
	assert_null(c.argv.v[c.argv.nr]);
	assert_string_equal(got, to);
	assert_int_equal(c.ram_bytes, ram_bytes);
	cmdline_free(&c);
}

static void assert_refuses(const char *line, int rc, const char *named)
{
	struct ebb_err err = {""};
	struct cmdline c = {.ram_bytes = 4711};

	print_message("%s\n", line);
	assert_int_equal(convert(line, &c, &err), rc);
	print_message("  %s\n", err.msg);
	if (!strstr(err.msg, named))
		fail_msg("\"%s\" does not name %s", err.msg, named);
	assert_int_equal(c.ram_bytes, 4711); /* untouched on failure */
}

#define RAM(id, size)                                                                              \
	"-object memory-backend-memfd,id=" id ",size=" size ",share=on -machine "                  \
							    "memory-backend=" id

static void test_plain_memory(void **state)
{
	assert_converts("-m 1G", RAM("ebb-ram", "1024M") " -m 1G", 1024 * MIB);
	assert_converts("--m 512", RAM("ebb-ram", "512M") " --m 512", 512 * MIB);
	assert_converts("", RAM("ebb-ram", "128M"), 128 * MIB);
	assert_converts("-m 0", RAM("ebb-ram", "128M") " -m 0", 128 * MIB);
	assert_converts("-m size=256M,slots=2,maxmem=1G",
			RAM("ebb-ram", "256M") " -m size=256M,slots=2,maxmem=1G", 256 * MIB);
	assert_converts("-m slots=2,maxmem=1G", RAM("ebb-ram", "128M") " -m slots=2,maxmem=1G",
			128 * MIB);
	assert_converts("-m 0x200", RAM("ebb-ram", "512M") " -m 0x200", 512 * MIB);
	/* Not a whole number of MiB; QEMU rounds up to 8 KiB. */
	assert_converts("-m 1.1G", RAM("ebb-ram", "1181122560") " -m 1.1G", 1181122560);
	assert_converts("-m 300k", RAM("ebb-ram", "311296") " -m 300k", 311296);
}

/* The last size counts, and -m before -machine memory.size=, as in QEMU 7.2. */
static void test_repeated_memory(void **state)
{
	assert_converts("-m 256 -m 300", RAM("ebb-ram", "300M") " -m 256 -m 300", 300 * MIB);
	assert_converts("-m 300 -m slots=1,maxmem=1G",
			RAM("ebb-ram", "300M") " -m 300 -m slots=1,maxmem=1G", 300 * MIB);
	assert_converts("-m 300,size=200M", RAM("ebb-ram", "200M") " -m 300,size=200M", 200 * MIB);
	assert_converts("-M memory.size=200M", RAM("ebb-ram", "200M") " -M memory.size=200M",
			200 * MIB);
	assert_converts("-m 300 -M memory.size=200M",
			RAM("ebb-ram", "300M") " -m 300 -M memory.size=200M", 300 * MIB);
	assert_converts("-M memory.size=209715200",
			RAM("ebb-ram", "200M") " -M memory.size=209715200", 200 * MIB);
}

static void test_ids_do_not_collide(void **state)
{
	assert_converts("-m 64 -chardev null,id=ebb-ram",
			RAM("ebb-ram-1", "64M") " -m 64 -chardev null,id=ebb-ram", 64 * MIB);
	assert_converts("-m 64 -object rng-random,id=ebb-ram -object rng-random,id=ebb-ram-1",
			RAM("ebb-ram-2", "64M") " -m 64 -object rng-random,id=ebb-ram -object "
						"rng-random,id=ebb-ram-1",
			64 * MIB);
}

static void test_backends(void **state)
{
	assert_converts("-m 64 -M q35,memory-backend=a -object memory-backend-ram,id=a,size=64M",
			"-m 64 -M q35,memory-backend=a -object "
			"memory-backend-memfd,id=a,size=64M,share=on",
			64 * MIB);
	/* Everything else is kept, in order; share=off is the default of memory-backend-ram. */
	assert_converts("-M memory-backend=a -object "
			"size=64M,id=a,qom-type=memory-backend-ram,share=off,merge=off,policy=bind,"
			"host-nodes=0",
			"-M memory-backend=a -object size=64M,id=a,qom-type=memory-backend-memfd,"
			"share=on,merge=off,policy=bind,host-nodes=0",
			64 * MIB);
	assert_converts(
		"-M memory-backend=a -object memory-backend-ram,id=a,size=64M,noshare,share",
		"-M memory-backend=a -object memory-backend-memfd,id=a,size=64M,share=on",
		64 * MIB);
	assert_converts(
		"-M memory-backend=a -object memory-backend-memfd,id=a,size=64M,share=on,seal=off",
		"-M memory-backend=a -object "
		"memory-backend-memfd,id=a,size=64M,share=on,seal=off",
		64 * MIB);
	assert_converts("-M memory-backend=a -object memory-backend-shm,id=a,size=64M",
			"-M memory-backend=a -object memory-backend-memfd,id=a,size=64M,share=on",
			64 * MIB);
	/* A hot-pluggable module beside plain RAM: both are converted. */
	assert_converts(
		"-m 64,slots=1,maxmem=1G -object memory-backend-ram,id=d,size=64M -device "
		"pc-dimm,memdev=d",
		RAM("ebb-ram",
		    "64M") " -m 64,slots=1,maxmem=1G -object "
			   "memory-backend-memfd,id=d,size=64M,share=on -device pc-dimm,memdev=d",
		64 * MIB);
	assert_converts(
		"-object rng-random,id=r,filename=/dev/urandom -m 64",
		RAM("ebb-ram", "64M") " -object rng-random,id=r,filename=/dev/urandom -m 64",
		64 * MIB);
}

static void test_json_backends(void **state)
{
	assert_converts(
		"-M memory-backend=pc.ram -object "
		"{\"qom-type\":\"memory-backend-ram\",\"id\":\"pc.ram\",\"size\":67108864,"
		"\"x-use-canonical-path-for-ramblock-id\":false,\"host-nodes\":[0]}",
		"-M memory-backend=pc.ram -object "
		"{\"qom-type\":\"memory-backend-memfd\",\"id\":\"pc.ram\",\"size\":67108864,"
		"\"x-use-canonical-path-for-ramblock-id\":false,\"host-nodes\":[0],"
		"\"share\":true}",
		64 * MIB);
	assert_converts("-M memory-backend=a -object "
			"{'qom-type':'memory-backend-ram','id':'a','size':67108864,'share':false}",
			"-M memory-backend=a -object "
			"{\"qom-type\":\"memory-backend-memfd\",\"id\":\"a\",\"size\":67108864,"
			"\"share\":true}",
			64 * MIB);
	assert_refuses("-object {\"qom-type\":\"memory-backend-ram\",}", -EINVAL, "-object");
	assert_refuses(
		"-object "
		"{\"qom-type\":\"memory-backend-ram\",\"id\":\"a\",\"size\":1,\"prealloc\":true}",
		-ENOTSUP, "prealloc=on");
}

static void test_numa(void **state)
{
	assert_converts(
		"-m 128 -object memory-backend-ram,id=n0,size=64M -numa node,memdev=n0 -object "
		"memory-backend-memfd,id=n1,size=64M,share=on -numa node,nodeid=1,memdev=n1",
		"-m 128 -object memory-backend-memfd,id=n0,size=64M,share=on -numa "
		"node,memdev=n0 -object memory-backend-memfd,id=n1,size=64M,share=on -numa "
		"node,nodeid=1,memdev=n1",
		128 * MIB);
	/* Other kinds of -numa say nothing about memory. */
	assert_converts("-m 64 -numa cpu,node-id=0",
			RAM("ebb-ram", "64M") " -m 64 -numa cpu,node-id=0", 64 * MIB);
	assert_refuses("-m 128 -numa node,nodeid=0,mem=128M", -ENOTSUP, "-numa node,mem=128M");
}

static void test_other_options_pass(void **state)
{
	static const char line[] =
		"-m 64 -append -m~4G~it's -serial mon:stdio -kernel -S -nographic disk.img -future "
		"value -future2 -no-reboot -drive file=a,,b.img,if=virtio -netdev user,id=n0 "
		"-device "
		"virtio-net,netdev=n0 -overcommit mem-lock=off -realtime mlock=off";
	char with_spaces[] = RAM(
		"ebb-ram", "64M") " -m 64 -append -m 4G it's -serial mon:stdio -kernel -S "
				  "-nographic disk.img -future value -future2 -no-reboot -drive "
				  "file=a,,b.img,if=virtio -netdev user,id=n0 -device "
				  "virtio-net,netdev=n0 -overcommit "
				  "mem-lock=off -realtime mlock=off";
	struct ebb_err err;
	struct cmdline c;

	assert_converts(line, with_spaces, 64 * MIB);
	/* -S there was the argument of -kernel. */
	assert_int_equal(convert(line, &c, &err), 0);
	assert_false(c.paused);
	cmdline_free(&c);
}

static void test_facts(void **state)
{
	struct ebb_err err;
	struct cmdline c;

	assert_int_equal(convert("-S -name guest=a~b,process=x -m 64", &c, &err), 0);
	assert_true(c.paused);
	assert_false(c.info_only);
	assert_string_equal(c.name, "a b");
	assert_int_equal(c.notes.nr, 1);
	cmdline_free(&c);
	assert_int_equal(convert("-name vm1,debug-threads=on", &c, &err), 0);
	assert_string_equal(c.name, "vm1");
	assert_false(c.paused);
	cmdline_free(&c);
}

static void test_help_is_left_alone(void **state)
{
	static const char *const lines[] = {"-h",
					    "--help",
					    "-version",
					    "-device help",
					    "-device e1000,help",
					    "-machine ?",
					    "-m 64 -cpu help -daemonize"};
	struct ebb_err err;
	struct cmdline c;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		print_message("%s\n", lines[i]);
		assert_int_equal(convert(lines[i], &c, &err), 0);
		assert_true(c.info_only);
		for (size_t j = 0; j < c.argv.nr; j++)
			assert_null(strstr(c.argv.v[j], "memory-backend"));
		cmdline_free(&c);
	}
	assert_int_equal(convert("-append help", &c, &err), 0);
	assert_false(c.info_only);
	cmdline_free(&c);
}

static void test_refused(void **state)
{
	static const struct {
		const char *line, *named;
	} t[] = {
		{"-mem-prealloc", "-mem-prealloc"},
		{"-object memory-backend-memfd,id=a,size=1G,prealloc=on", "prealloc=on"},
		{"-object memory-backend-ram,id=a,size=1G,prealloc", "prealloc=on"},
		{"-object memory-backend-memfd,id=a,size=1G,hugetlb=on", "hugetlb=on"},
		{"-object memory-backend-epc,id=a,size=1G", "memory-backend-epc"},
		{"-object memory-backend-new,id=a,size=1G", "memory-backend-new"},
		{"-object memory-backend-file,id=a,size=1G,mem-path=/proc,share=on", "/proc"},
		{"-object memory-backend-file,id=a,size=1G", "share=on"},
		{"-object memory-backend-file,id=a,size=1G,share=on,pmem=on", "pmem=on"},
		{"-mem-path /proc", "-mem-path"},
		{"-mem-path /nonexistent/a/b", "/nonexistent/a/b"},
		{"-overcommit mem-lock=on", "mem-lock=on"},
		{"-overcommit cpu-pm=on,mem-lock=on-fault", "mem-lock=on"},
		{"-realtime mlock=on", "mlock=on"},
		{"-incoming defer", "-incoming"},
		{"-daemonize", "-daemonize"},
		{"--preconfig", "-preconfig"},
		{"-xen-domid 1", "-xen-domid"},
		{"-device vfio-pci,host=01:00.0", "vfio-pci"},
		{"-device id=x,driver=vfio-pci", "vfio-pci"},
		{"-device {\"driver\":\"vfio-pci\",\"host\":\"01:00.0\"}", "vfio-pci"},
		{"-device vhost-user-fs-pci,chardev=c", "vhost-user-fs-pci"},
		{"-device vhost-vdpa-device-pci,vhostdev=/dev/vhost-vdpa-0",
		 "vhost-vdpa-device-pci"},
		{"-device ivshmem-plain,memdev=m", "ivshmem-plain"},
		{"-device x-pci-proxy-dev,fd=3", "x-pci-proxy-dev"},
		{"-netdev vhost-user,id=n,chardev=c", "-netdev vhost-user"},
		{"-netdev {\"type\":\"vhost-vdpa\",\"id\":\"n\"}", "-netdev vhost-vdpa"},
		{"-nic vhost-user,chardev=c", "-nic vhost-user"},
		{"-drive file=nvme://0000:44:00.0/1,if=none", "nvme"},
		{"-blockdev nvme,node-name=n,device=0000:44:00.0", "nvme"},
		{"-blockdev driver=raw,node-name=n,file.driver=nvme", "nvme"},
		{"-blockdev {\"driver\":\"raw\",\"file\":{\"driver\":\"nvme\"}}", "nvme"},
		{"-M q35,confidential-guest-support=sev0", "confidential-guest-support"},
		{"-object sev-guest,id=sev0", "sev-guest"},
		{"-object sev-snp-guest,id=sev0", "sev-snp-guest"},
		{"-object x-vfio-user-server,id=s", "x-vfio-user-server"},
		{"-M none", "none"},
		{"-M x-remote", "x-remote"},
		{"-readconfig /nonexistent.conf", "/nonexistent.conf"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_refuses(t[i].line, -ENOTSUP, t[i].named);
}

static void test_not_a_command_line(void **state)
{
	struct ebb_err err = {""};
	struct cmdline c;

	assert_int_equal(cmdline_convert(0, (char *const[]) {NULL}, &c, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "--"));
	assert_refuses("-m 64 -append", -EINVAL, "-append");
	assert_refuses("-m", -EINVAL, "-m");
	assert_refuses("-m lots", -EINVAL, "lots");
	assert_refuses("-m 99999999999999", -EINVAL, "99999999999999");
	assert_refuses("-m 0xg", -EINVAL, "0xg");
}

/* What a machine has without -m is known for x86 only. */
static void test_default_size(void **state)
{
	char *const arm[] = {(char *)"/usr/bin/qemu-system-aarch64", (char *)"-M", (char *)"virt",
			     NULL};
	char *const arm_sized[] = {(char *)"qemu-system-aarch64", (char *)"-m", (char *)"64", NULL};
	char *const renamed[] = {(char *)"/usr/bin/kvm", NULL};
	struct ebb_err err = {""};
	struct cmdline c;

	assert_int_equal(cmdline_convert(3, arm, &c, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "-m"));
	assert_int_equal(cmdline_convert(3, arm_sized, &c, &err), 0);
	assert_int_equal(c.ram_bytes, 64 * MIB);
	cmdline_free(&c);
	assert_int_equal(cmdline_convert(1, renamed, &c, &err), 0);
	assert_int_equal(c.ram_bytes, 128 * MIB);
	cmdline_free(&c);
}

static void test_mem_path_on_tmpfs(void **state)
{
	struct statfs fs;

	if (statfs("/dev/shm", &fs) || fs.f_type != TMPFS_MAGIC) {
		print_message("skipped: /dev/shm is not a tmpfs\n");
		skip();
	}
	assert_converts("-m 64 -mem-path /dev/shm -S", RAM("ebb-ram", "64M") " -m 64 -S", 64 * MIB);
	assert_converts("-M memory-backend=a -object "
			"memory-backend-file,id=a,size=64M,mem-path=/dev/shm/x,share=on",
			"-M memory-backend=a -object "
			"memory-backend-file,id=a,size=64M,mem-path=/dev/shm/x,share=on",
			64 * MIB);
	assert_refuses("-object memory-backend-file,id=a,size=64M,mem-path=/dev/shm/x", -ENOTSUP,
		       "share=off");
}

static void check_config(const char *text, const char *named)
{
	char path[] = "/tmp/test_run_cmdline.XXXXXX";
	int fd = mkstemp(path);
	struct ebb_err err = {""};
	int rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	rc = refuse_config(path, false, &err);
	unlink(path);
	print_message("%s\n", err.msg);
	assert_int_equal(rc, named ? -ENOTSUP : 0);
	if (named)
		assert_non_null(strstr(err.msg, named));
}

static void test_config_files(void **state)
{
	check_config("# nothing\n[drive \"d\"]\n  file = \"a.img\"\n[machine]\n  type = \"q35\"\n"
		     "[device \"n\"]\n  driver = \"virtio-net-pci\"\n",
		     NULL);
	check_config("[memory]\n  size = \"1G\"\n", ":1: the section [memory]");
	check_config("\n\n[object \"o\"]\n", ":3: the section [object]");
	check_config("[numa]\n", "[numa]");
	check_config("[machine]\n  memory-backend = \"a\"\n", ":2: memory-backend");
	check_config("[machine]\n  confidential-guest-support = \"a\"\n", "confidential");
	check_config("[device \"v\"]\n  driver = \"vfio-pci\"\n", ":2: -device vfio-pci");
	check_config("[netdev \"v\"]\n  type = \"vhost-user\"\n", "vhost-user");
	assert_int_equal(refuse_config("/nonexistent.conf", true, NULL), 0);
}

static void test_hold(void **state)
{
	struct ebb_err err;
	struct cmdline c;
	char *id;

	assert_int_equal(convert("-m 64 -chardev null,id=ebb-monitor", &c, &err), 0);
	cmdline_hold(&c, "/run/x y");
	assert_string_equal(c.argv.v[1], "-S");
	assert_string_equal(c.argv.v[2], "-readconfig");
	assert_string_equal(c.argv.v[3], "/run/x y");
	assert_string_equal(c.argv.v[4], "-object");
	assert_false(c.paused); /* that was the user's -S */
	id = cmdline_free_id(&c, "ebb-monitor");
	assert_string_equal(id, "ebb-monitor-1");
	free(id);
	cmdline_free(&c);
}

static void test_optstr(void **state)
{
	struct optstr o;
	struct ebb_err err;
	char *text;

	assert_int_equal(optstr_parse("a,,b,x=1,,2,flag,noflag2,x=3,e=", "first", &o, &err), 0);
	assert_string_equal(optstr_get(&o, "first"), "a,b");
	assert_string_equal(optstr_get(&o, "x"), "3");
	assert_string_equal(optstr_get(&o, "e"), "");
	assert_true(optstr_is_on(&o, "flag"));
	assert_false(optstr_is_on(&o, "flag2"));
	assert_false(optstr_is_on(&o, "absent"));
	assert_null(optstr_get(&o, "absent"));
	optstr_set(&o, "x", "9,8");
	text = optstr_format(&o);
	assert_string_equal(text, "a,,b,x=9,,8,flag=on,flag2=off,e=");
	free(text);
	optstr_free(&o);
	/* JSON with both kinds of quotes, escapes, and quotes inside the other kind. */
	assert_int_equal(optstr_parse("{'a':'it\\'s \"x\"',\"b\":\"c'd\\\"\",'n':12,'t':true}",
				      NULL, &o, &err),
			 0);
	assert_string_equal(optstr_get(&o, "a"), "it's \"x\"");
	assert_string_equal(optstr_get(&o, "b"), "c'd\"");
	assert_string_equal(optstr_get(&o, "n"), "12");
	assert_true(optstr_is_on(&o, "t"));
	optstr_free(&o);
	assert_int_equal(optstr_parse("{\"a\":1,\"a\":2}", NULL, &o, &err), -EINVAL);
	assert_int_equal(optstr_parse("{", NULL, &o, &err), -EINVAL);
}

/* A shell must read back exactly the words that went in. */
static void test_quote(void **state)
{
	static const char *const words[] = {"plain", "",     "with space", "it's",
					    "$HOME", "a\nb", "*?[]",	   "back\\slash",
					    "`x`",   "\"",   "~",	   "a=b,c:d/e.f@g",
					    "#",     "!",    "''"};
	struct strlist l = {0};
	_cleanup_free_ char *line = NULL, *command = NULL;
	char got[512];
	size_t len, at = 0;
	FILE *f;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		strlist_add(&l, run_strdup(words[i]));
	line = strlist_quote(&l);
	command = run_asprintf("printf '%%s\\n.\\n' %s", line);
	f = popen(command, "r");
	assert_non_null(f);
	len = fread(got, 1, sizeof(got) - 1, f);
	got[len] = '\0';
	assert_int_equal(pclose(f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		assert_memory_equal(got + at, words[i], strlen(words[i]));
		at += strlen(words[i]);
		assert_memory_equal(got + at, "\n.\n", 3);
		at += 3;
	}
	assert_int_equal(at, len);
	strlist_free(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_memory),
		cmocka_unit_test(test_repeated_memory),
		cmocka_unit_test(test_ids_do_not_collide),
		cmocka_unit_test(test_backends),
		cmocka_unit_test(test_json_backends),
		cmocka_unit_test(test_numa),
		cmocka_unit_test(test_other_options_pass),
		cmocka_unit_test(test_facts),
		cmocka_unit_test(test_help_is_left_alone),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_not_a_command_line),
		cmocka_unit_test(test_default_size),
		cmocka_unit_test(test_mem_path_on_tmpfs),
		cmocka_unit_test(test_config_files),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_optstr),
		cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
