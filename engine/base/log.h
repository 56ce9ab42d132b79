/* SPDX-License-Identifier: MIT */
/* The daemon's log: stderr in the foreground, syslog in the background. Thread-safe. */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);

/*
 * Switches to syslog, as "ckptfs[pid]". The daemon never waits for the reader of syslog: messages
 * that the reader does not take are lost. The next one that it takes ends with their number.
 */
void log_to_syslog(void);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
