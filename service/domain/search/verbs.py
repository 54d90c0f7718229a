"""Classes of verbs in both languages: who says 查看 may mean a tool called list, get or show.

One class a line; Latin words are stemmed before they are compared, `_` joins two of them. Indented lines go on.
"""

from typing import Final

VERBS: Final = """
get: 查看 查询 查一下 查下 查查 查到 查 看看 看一下 看下 看到 看 瞅瞅 瞧瞧 翻翻 翻一翻 翻 显示 展示 展开 列出 列一下
    列下 列 获取 取出 取来 取回 取 拿到 调出 读取 读一下 读出 读 检索 了解 得到 显出 贴出来 打出来 list get show view
    display read fetch retrieve query see cat print check what tell
search: 搜索 搜一下 搜 查找 寻找 找出 找到 找一下 找找 找 检索 筛选 匹配 搜寻 search find lookup look_up locate filter
    grep query match
create: 创建 新建 新增 新开 建立 建个 建 添加 增加 追加 加个 加上 加 开个 开一条 开一个 发起 起草 生成 产生 制作 做个
    造 挂个 登记 create add new make generate produce build draft insert append open raise register scaffold
update: 更新 修改 改成 改一下 改 编辑 调整 变更 换成 替换 设置 设定 设为 修正 覆盖 update edit modify change set
    replace adjust alter amend overwrite mark configure
delete: 删除 删掉 删 移除 去掉 去除 清除 清理 清空 清掉 清一清 清 扔掉 扔 抹掉 注销 撤掉 撤销 取消 卸载 delete remove
    drop clear clean purge erase cancel revoke destroy uninstall
write: 写入 写进 写到 写下 写 保存 存进 存到 存 存储 记录 记下 记一条 记一笔 记 录入 落盘 write save store record log
    put
upload: 上传 传到 传上去 上报 发布 放到 上架 upload push publish release deploy put
download: 下载 拉取 拉下来 拉到 拉 取来 同步 抓取 download pull fetch sync clone
send: 发送 发出 发个 发给 发 寄 通知 推送 提交 上报 转发 回复 评论 send post notify submit push email message reply
    comment
run: 执行 运行 跑一下 跑 试试 试跑 敲 调用 run execute exec invoke call launch eval
start: 启动 开始 开启 拉起 起 打开 启用 start begin enable boot launch open activate
stop: 停止 停掉 停 关闭 关掉 关 结束 结掉 杀掉 杀 终止 中止 禁用 stop close kill end terminate shutdown disable abort
    halt finish
restart: 重启 重起 重新启动 重新加载 重载 重新读取 再起 restart reboot reload respawn
convert: 转换 转成 转为 转 换算 换成 变成 变 编码 解码 翻译 解析 格式化 convert transform translate turn encode decode
    parse format
check: 检查 验证 校验 核对 核实 确认 检测 测试 诊断 体检 排查 验 测 check verify validate test diagnose inspect
    confirm audit lint
compute: 计算 统计 算一下 算下 算算 算 数一下 数数 汇总 归纳 分析 评估 估算 compute calculate count sum summarize
    analyze analyse estimate measure statistic evaluate
extract: 提取 抽取 摘出来 摘 抠出来 抠 抽出 挑出来 挑 取出 拆出来 解压 extract pull_out pick parse unpack unzip
compare: 比较 对比 对照 比一比 比对 差异 区别 compare diff contrast difference
merge: 合并 合进 合到 合 并入 merge join combine squash
split: 切分 分割 拆分 切成 切 拆 split chunk divide separate
explain: 解释 说明 看懂 讲解 explain describe interpret meaning
restore: 恢复 还原 导回 回滚 restore recover rollback revert undo
backup: 备份 导出 归档 存档 封存 备一份 backup back_up dump export archive snapshot
link: 连接 关联 链接 挂 建立关系 绑定 link connect attach associate relate bind
book: 预订 预定 订 购买 买 book order buy purchase reserve
recommend: 推荐 建议 recommend suggest advise
track: 跟踪 追踪 监控 监视 盯 溯源 track trace monitor watch
"""
