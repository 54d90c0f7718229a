"""Developers' words of both languages that mean one thing. Bitong's own: dictionaries lack them (提交 is no commit there).

One group a line, its name first; Latin words are stemmed before they are compared, `_` joins two of them.
Indented lines go on.
"""

from typing import Final

GROUPS: Final = """
disk: 磁盘 硬盘 盘 磁盘空间 硬盘空间 分区 根分区 存储空间 空间 挂载点 disk space partition df du volume filesystem
memory: 内存 运存 物理内存 交换分区 虚拟内存 ram swap memory_usage free oom memory
load: 负载 系统负载 平均负载 卡 卡顿 很慢 变慢 忙不忙 繁忙 load load_average uptime cpu 处理器
process: 进程 程序 线程 进程号 process pid ps top proces task job
port: 端口 监听 口子 占用端口 port listen socket
firewall: 防火墙 安全组 安全策略 放行 放开 封禁 规则 白名单 firewall ufw iptables nftables
cert: 证书 域名证书 https ssl tls cert certificate certbot let_encrypt letsencrypt
expire: 过期 到期 有效期 失效 截止 expire expiry expiration
renew: 续签 续期 续上 延期 延长 renew renewal extend
log: 日志 流水 日志文件 log journal syslog logging
error: 错误 报错 出错 异常 故障 失败 崩溃 挂了 error err fail failure exception crash fault stderr errored
access: 访问 请求 访问量 access request visit hit
service: 服务 系统服务 守护进程 后台服务 service daemon systemd systemctl unit
status: 状态 情况 进度 进展 活着 还在 status state progress health online alive running
schedule: 定时 定时任务 计划任务 周期任务 每天 每小时 每周 排程 cron crontab schedule scheduled_job scheduled_task
    timer
file: 文件 文档 file document doc
directory: 目录 文件夹 路径 子目录 directory folder dir path
repository: 仓库 代码库 代码仓库 版本库 项目 repo repository project
branch: 分支 branch
commit: 提交 提交记录 提交历史 commit changeset revision
tag: 标签 打标 tag label
release: 发布 发行 发行版 版本 发版 正式版 上线 release version changelog
pullrequest: 合并请求 拉取请求 合并申请 pr mr pull_request merge_request
issue: 工单 问题单 问题 缺陷 议题 单子 issue ticket bug
webhook: 钩子 回调 推送通知 webhook hook callback
review: 审核 审查 评审 审 review approve
comment: 评论 回复 留言 跟帖 批注 comment reply remark
member: 协作者 成员 合作者 权限 collaborator member permission contributor
account: 账号 帐号 账户 帐户 用户 身份 登录 account user login identity whoami profile
secret: 密码 密钥 口令 令牌 秘钥 凭证 password passwd secret key token credential
random: 随机 乱数 random
database: 数据库 库 数据表 database db postgres postgresql pg mysql sqlite sql
backup: 备份 快照 转储 备份文件 backup dump snapshot
archive: 归档 存档 封存 冷存储 冷备 archive cold
bucket: 对象存储 存储桶 桶 cos oss s3 bucket object_storage blob object
json: json jq
field: 字段 键 属性 值 field key attribute property value
csv: csv 表格 逗号分隔 电子表格 表头 spreadsheet excel tsv
encode: 编码 转码 encode b64 base64
decode: 解码 还原 原文 decode
base64: base64 b64
hash: 哈希 散列 校验值 校验和 指纹 摘要值 sha256 sha md5 hash checksum digest fingerprint
unique: 唯一 不重复 uuid guid unique identifier
regex: 正则 正则表达式 模式匹配 regex regexp pattern
time: 时间戳 时间 日期 公历 时区 timestamp epoch unix_time datetime date
template: 模板 占位符 套用 template placeholder render 渲染 变量
markdown: markdown md
plaintext: 纯文本 文字 文本 text plain
diff: 差异 区别 改动 变更 不同 diff difference
duplicate: 去重 重复 重复的 一样的 重 dedupe duplicate dedup distinct
count: 字数 数量 总数 条数 count number how_many
train: 训练 训练会话 练 train training
finetune: 微调 精调 调优 fine_tune finetune finetuning fine_tuning sft
corpus: 语料 数据集 训练集 训练数据 corpus dataset corpora
alert: 告警 报警 警报 预警 警告 alert alarm warning
heartbeat: 心跳 存活 保活 heartbeat keepalive ping
diagnose: 诊断 病因 排查 体检 diagnose diagnosis troubleshoot
module: 模块 组件 module component plugin
node: 节点 条目 词条 node entry
relation: 关系 关联 联系 引用 人际关系 relation relationship relate edge reference connect
tree: 树 树形 文件树 层级 tree hierarchy
timeline: 时间线 时间轴 年表 大事记 timeline chronicle history
history: 历史 历次 以前 过去 旧版 旧版本 历史版本 history previous past
recall: 记忆 回忆 往事 想起 recall remember remembrance memory_anchor memory
notebook: 笔记本 笔记 本子 notebook note
people: 人格体 人格 persona character people
list: 列表 清单 名单 花名册 全部 所有 list roster all
tail: 尾部 最后几行 末尾 tail
keyword: 关键字 关键词 包含 出现过 keyword contain
summary: 摘要 总结 归纳 概括 汇总 summary summarize digest
http: 网址 接口 请求 链接 外部接口 http url api endpoint curl webpage link
sandbox: 沙箱 沙盒 隔离 隔离环境 sandbox isolate
command: 命令 指令 shell bash command cmd terminal 终端 命令行
code: 代码 片段 脚本 python code script snippet py
config: 配置 设置 参数 环境变量 config configuration setting conf env
syntax: 语法 写法 格式 写对 syntax format valid
definition: 定义 规格 definition schema spec
draft: 草稿 起草 骨架 草案 draft scaffold skeleton
upload: 上传 upload
download: 下载 download
server: 服务器 主机 机器 服务端 server host machine vps
network: 网络 带宽 流量 network bandwidth traffic
image: 图片 图像 照片 图 image picture photo
video: 视频 影片 video movie film
audio: 音频 录音 声音 语音 audio sound voice speech
mail: 邮件 邮箱 电子邮件 mail email
message: 消息 信息 短信 message sms notification
web: 网站 网页 站点 页面 主页 web website site page
container: 容器 镜像 docker container podman image
deploy: 部署 上线 发布 deploy deployment rollout
test: 测试 单元测试 用例 test testing
build: 构建 编译 打包 build compile package
translate: 翻译 译成 translate translation
weather: 天气 气温 weather forecast
map: 地图 路线 导航 map route navigation location
order: 订单 下单 order purchase
price: 价格 费用 成本 price cost fee
calendar: 日历 日程 会议 calendar meeting event appointment
department: 部门 团队 小组 department team group
report: 报告 报表 周报 日报 report
data: 数据 data
tool: 工具 tool
proxy: 反向代理 反代 代理 网关 nginx proxy gateway
pipeline: 流水线 检查 检查结果 持续集成 ci pipeline check
trunk: 主干 主分支 main master trunk
chat: 聊天 聊天记录 对话 会话 chat conversation dialogue session
layout: 缩进 排版 美化 格式化 pretty indent format beautify layout
compressed: 压缩包 压缩 解压 zip tar gz tarball gzip compressed
junk: 垃圾 缓存 临时文件 清理 junk cache temporary tmp cleanup
queue: 队列 排队 queue backlog
dependency: 依赖 依赖项 dependency requirement
domain: 域名 解析 dns domain hostname
identifier: 编号 标识 id identifier number
author: 作者 谁写的 author committer
expression: 表达式 expression
environment: 环境 测试环境 生产环境 environment staging production
health: 健康 健康分 体检 健康检查 health healthcheck
priority: 优先级 重要度 严重级别 级别 severity priority level importance
capacity: 容量 剩余 余量 占用 用量 capacity usage remaining quota
subscription: 订阅 关注 subscription subscribe follow
invoice: 发票 账单 invoice bill
customer: 客户 顾客 customer client
employee: 员工 人员 雇员 employee staff
schedule_plan: 计划 方案 规划 plan planning
"""
